"""One worker of a cell, inside the lab. The contenders take turns until the budget is spent.

A contender has a copy of the model, a process group of its own and some steps to warm up. If there
is memory for all of them, they stay alive between their turns, so that a turn can have only two
steps. Otherwise a contender leaves after its turn. Every round has the reversed order of the one
before, so a machine that becomes slower affects all alike. Worker 0 writes the results after every
turn.
"""

from __future__ import annotations

import argparse
import copy
import gc
import json
import math
import os
import statistics
import sys
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from bench.process_memory import keep_freed_memory, return_freed_memory
from bench.race.contenders import CONTENDERS, Contender
from bench.race.models import Batch, make_batches, make_model

SLOW = 20.0  # seconds; contenders with longer steps have only two timed steps per turn
TURN_TIMEOUT = timedelta(minutes=5)  # of a collective; afterwards the contender has failed
HEADERS = 14 + 20 + 32  # Ethernet, IP, TCP with time stamps
SUMMED = ("encode_seconds", "wait_seconds", "decode_seconds", "payload_bytes", "sent_bytes")


def bytes_on_wire() -> int:
    counters = Path("/sys/class/net/lab0/statistics")
    if not counters.exists():
        return 0  # this is not the lab
    sent, packets = (int((counters / name).read_text()) for name in ("tx_bytes", "tx_packets"))
    return sent - HEADERS * packets


def stats_of(contender: Contender) -> dict[str, float]:
    if contender.attachment is None:
        return {}
    stats = contender.attachment.stats()
    return {name: stats[name] for name in SUMMED}


def copy_of(model: nn.Module) -> nn.Module:
    """Copies share the weights, which never change: the learning rate is 0."""
    copied = copy.deepcopy(model)
    for own, shared in zip(copied.parameters(), model.parameters(), strict=True):
        own.data = shared.data
    return copied


class Entrant:
    """A contender with a group of its own, warmed up."""

    def __init__(self, name: str, base: nn.Module, batches: list[Batch], rank: int) -> None:
        self.group = dist.new_group(timeout=TURN_TIMEOUT)
        self.contender = CONTENDERS[name](copy_of(base), self.group, rank)
        self.batches = batches
        self.taken = 0
        self.last_seconds = 0.0
        for _ in range(self.contender.warm_up):
            self.step()
        self.stats = stats_of(self.contender)

    def step(self) -> list[float]:
        self.contender.prepare()
        dist.barrier(self.group)
        parts = list(self.contender.step(self.batches[self.taken % len(self.batches)]))
        self.taken += 1
        self.last_seconds = sum(parts)
        return parts

    def take_turn(self, wanted: int, left: float = math.inf) -> dict[str, Any]:
        """Returns this worker's figures of one turn. Raises what the contender raises."""
        count = timed_steps(self.last_seconds, wanted, left, self.group)
        dist.barrier(self.group)
        wire = bytes_on_wire()
        steps = [self.step() for _ in range(count)]
        dist.barrier(self.group)
        return {"steps": steps, "wire_bytes": (bytes_on_wire() - wire) / count}

    def leave(self) -> dict[str, float]:
        """Frees the contender and returns averages over its timed steps."""
        steps = self.taken - self.contender.warm_up
        stats = stats_of(self.contender)
        del self.contender
        gc.collect()
        dist.destroy_process_group(self.group)
        # Return the memory: the next contender starts as this one did, and four workers fit.
        return_freed_memory()
        return {name: (value - self.stats[name]) / steps for name, value in stats.items()}


def timed_steps(seconds: float, wanted: int, left: float, group: dist.ProcessGroup) -> int:
    """Worker 0 decides how many steps fit. The number is even: P and Q steps weigh the same."""
    fit = wanted if math.isinf(left) else int(left / max(seconds, 1e-9))
    count = 2 if seconds > SLOW else min(wanted, max(2, fit))
    agreed = torch.tensor([count - count % 2])
    dist.broadcast(agreed, 0, group)
    return int(agreed)


def merged(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """Merges what the workers measured. A step takes as long as its slowest worker."""

    def mean(values: list[float]) -> float:
        return statistics.fmean(values)

    per_step = list(zip(*(turn["steps"] for turn in turns), strict=True))
    parts = [[mean(column) for column in zip(*step, strict=True)] for step in per_step]
    return {
        "seconds": [max(sum(parts) for parts in step) for step in per_step],
        **{
            name: [part[index] for part in parts]
            for index, name in enumerate(("forward", "backward", "optimizer"))
        },
        "wire_bytes": mean([turn["wire_bytes"] for turn in turns]),
    }


class Race:
    """One cell under way on this worker."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.begin = time.monotonic()
        # The workers agree through this group: that of a turn cannot be used after a failure.
        self.control = dist.new_group(timeout=timedelta(hours=1))
        self.worker = dist.get_rank()
        self.base = make_model(args.model)
        self.batches = make_batches(args.model, args.batch, self.worker)
        self.cost: dict[str, float] = {}  # seconds of a contender's last turn
        self.kept: dict[str, Entrant] = {}
        self.begin_of_turn = self.begin
        self.result: dict[str, Any] = {
            "parameters": sum(p.numel() for p in self.base.parameters()),
            "turns": {name: [] for name in args.contenders},
            "stats": {name: [] for name in args.contenders},  # one entry for each time it left
            "errors": {},
        }

    def left(self) -> float:
        return self.args.budget - (time.monotonic() - self.begin)

    def run(self) -> None:
        # Otherwise the first contender would pay for what a process does only once.
        warm_up = Contender(copy_of(self.base))
        for batch in self.batches[:2]:
            warm_up.step(batch)
        del warm_up
        rounds = -(-self.args.steps // self.args.turn)
        for number in range(rounds):
            chosen = self.affordable()
            order = self.args.contenders if number % 2 == 0 else self.args.contenders[::-1]
            for name in order:
                if name in chosen:
                    self.write(running=name)
                    self.turn(name, f"round {number + 1} of {rounds}")
        for name in self.args.contenders:
            if name in self.kept and name not in self.result["errors"]:
                self.add_stats(name, self.gathered(self.kept.pop(name).leave()))
        self.write(running=None)

    def affordable(self) -> list[str]:
        """Returns the contenders whose turns fit into the rest of the budget, cheapest first.

        So a slow contender has fewer steps, and the others do not. In the first round no cost is
        known, and all fit.
        """
        chosen, left = [], self.left()
        waiting = set(self.args.contenders) - set(self.result["errors"])
        for name in sorted(waiting, key=lambda name: self.cost.get(name, 0.0)):
            left -= self.cost.get(name, 0.0)
            if left > 0:
                chosen.append(name)
        agreed = [chosen]  # worker 0 decides, because the clocks of the workers may differ
        dist.broadcast_object_list(agreed, 0, self.control)
        return agreed[0]

    def turn(self, name: str, label: str) -> None:
        error, figures = None, None
        self.begin_of_turn = time.monotonic()
        try:
            figures = self.figures_of_turn(name)
        except Exception as caught:  # an error of a peer is a result, too
            error = f"{type(caught).__name__}: {str(caught).splitlines()[0]}"
        everyone = self.gathered((error, figures))
        self.cost[name] = time.monotonic() - self.begin_of_turn
        errors = [error for error, _ in everyone if error]
        if errors:
            # Report all of them: a timeout on one worker is caused by an error on another.
            text = "; ".join(dict.fromkeys(errors))
            self.result["errors"][name] = text
        else:
            turns = [figures for _, figures in everyone]
            turn = merged(turns)
            self.result["turns"][name].append(turn)
            if "stats" in turns[0]:
                self.add_stats(name, [turn["stats"] for turn in turns])
            text = f"{statistics.median(turn['seconds']):8.3f} s x {len(turn['seconds'])}"
        if self.worker == 0:
            spent = self.args.budget - self.left()
            print(f"  {label}  {spent:5.0f} s  {name:20} {text}", file=sys.stderr, flush=True)

    def figures_of_turn(self, name: str) -> dict[str, Any]:
        entrant = self.kept.get(name) or Entrant(name, self.base, self.batches, self.args.rank)
        turn = max(self.args.turn, entrant.contender.shortest_turn)
        if self.args.keep:
            self.kept[name] = entrant
            self.begin_of_turn = time.monotonic()  # the next turn will need no warm-up
            return entrant.take_turn(turn, self.left())
        figures = entrant.take_turn(turn, self.left())
        figures["stats"] = entrant.leave()
        return figures

    def gathered(self, mine: Any) -> list[Any]:
        everyone: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(everyone, mine, self.control)
        return everyone

    def add_stats(self, name: str, everyone: list[dict[str, float]]) -> None:
        self.result["stats"][name].append(
            {key: statistics.fmean(stats[key] for stats in everyone) for key in everyone[0]}
        )

    def write(self, running: str | None) -> None:
        if self.worker == 0:
            text = json.dumps({**self.result, "running": running})
            unfinished = self.args.out.with_suffix(".part")
            unfinished.write_text(text)
            unfinished.replace(self.args.out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--turn", type=int, required=True)
    parser.add_argument("--keep", action="store_true", help="contenders stay from turn to turn")
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--contenders", type=lambda text: text.split(","), required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    keep_freed_memory()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo", timeout=TURN_TIMEOUT)
    race = Race(args)
    race.run()
    dist.barrier(race.control)
    if race.result["errors"]:
        # Threads of a failed peer may hang for ever. The results are written already.
        sys.stderr.flush()
        os._exit(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
