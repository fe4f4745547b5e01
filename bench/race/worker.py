"""One worker of one cell, inside the lab: the contenders take turns until the budget is spent.

A turn: a fresh copy of the model, a process group of its own, warm-up steps, timed steps; then all
of it is thrown away. The order is reversed from round to round, so that a machine that slows down
slows down everybody alike. Worker 0 writes what is known after every turn.
"""

from __future__ import annotations

import argparse
import copy
import ctypes
import gc
import json
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

from bench.race.contenders import CONTENDERS, Contender
from bench.race.models import Batch, make_batches, make_model

SLOW = 20.0  # seconds of a step from which on two timed steps a turn must do
TURN_TIMEOUT = timedelta(minutes=5)  # of a collective; then the contender has failed
HEADERS = 14 + 20 + 32  # Ethernet, IP, TCP with time stamps
SUMMED = ("encode_seconds", "wait_seconds", "decode_seconds", "payload_bytes", "sent_bytes")


def bytes_on_wire() -> int:
    counters = Path("/sys/class/net/lab0/statistics")
    if not counters.exists():
        return 0  # outside the lab
    sent, packets = (int((counters / name).read_text()) for name in ("tx_bytes", "tx_packets"))
    return sent - HEADERS * packets


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def stats_of(contender: Contender) -> dict[str, float]:
    if contender.attachment is None:
        return {}
    stats = contender.attachment.stats()
    return {name: stats[name] for name in SUMMED}


def one_step(contender: Contender, batch: Batch, group: dist.ProcessGroup) -> list[float]:
    contender.prepare()
    dist.barrier(group)
    return list(contender.step(batch))


def timed_steps(seconds: float, wanted: int, left: float, group: dist.ProcessGroup) -> int:
    """How many steps fit: worker 0 decides, and an even number, for P and Q steps to be equal."""
    count = 2 if seconds > SLOW else min(wanted, max(2, int(left / max(seconds, 1e-9))))
    agreed = torch.tensor([count - count % 2])
    dist.broadcast(agreed, 0, group)
    return int(agreed)


def take_turn(
    name: str, base: nn.Module, batches: list[Batch], args: argparse.Namespace, left: float
) -> dict[str, Any]:
    """This worker's figures of one turn; raises what the contender raises."""
    group = dist.new_group(timeout=TURN_TIMEOUT)
    contender = CONTENDERS[name](copy.deepcopy(base), group, args.rank)
    begin = time.perf_counter()
    for number in range(contender.warm_up):
        last = one_step(contender, batches[number % len(batches)], group)
    left -= time.perf_counter() - begin
    count = timed_steps(sum(last), args.turn, left, group)
    dist.barrier(group)
    stats, wire = stats_of(contender), bytes_on_wire()
    steps = [one_step(contender, batches[number % len(batches)], group) for number in range(count)]
    dist.barrier(group)
    wire = bytes_on_wire() - wire
    figures = {name: value - stats[name] for name, value in stats_of(contender).items()}
    memory = resident_bytes()
    # What is left of a turn must not use memory or time in the next: the Reducer's hooks hang on
    # parameters that nobody else has, so they go with the copy.
    del contender
    gc.collect()
    dist.destroy_process_group(group)
    return {
        "steps": steps,
        "wire_bytes": wire / count,
        "stats": {name: value / count for name, value in figures.items()},
        "memory": memory,
    }


def merged(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """One turn out of what the workers measured: a step takes as long as its slowest worker."""

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
        "stats": {
            name: mean([turn["stats"][name] for turn in turns]) for name in turns[0]["stats"]
        },
        "memory": max(turn["memory"] for turn in turns),
    }


class Race:
    """One cell under way on this worker."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.begin = time.monotonic()
        # Agreement has a group of its own: that of a turn is useless after a failure.
        self.control = dist.new_group(timeout=timedelta(hours=1))
        self.worker = dist.get_rank()
        self.base = make_model(args.model)
        self.batches = make_batches(args.model, args.batch, self.worker)
        self.cost: dict[str, float] = {}  # seconds of a contender's last turn
        self.result: dict[str, Any] = {
            "parameters": sum(p.numel() for p in self.base.parameters()),
            "turns": {name: [] for name in args.contenders},
            "errors": {},
        }

    def left(self) -> float:
        return self.args.budget - (time.monotonic() - self.begin)

    def run(self) -> None:
        # Whoever came first would pay for what the process does once.
        warm_up = Contender(copy.deepcopy(self.base))
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
        self.write(running=None)

    def affordable(self) -> list[str]:
        """Whose turns fit into what is left of the budget: the cheapest first, so that a slow
        contender has fewer steps and not the others. In the first round nobody's cost is known.
        """
        chosen, left = [], self.left()
        for name in sorted(self.args.contenders, key=lambda name: self.cost.get(name, 0.0)):
            left -= self.cost.get(name, 0.0)
            if left > 0 and name not in self.result["errors"]:
                chosen.append(name)
        agreed = [chosen]  # by worker 0: the clocks of the workers need not agree
        dist.broadcast_object_list(agreed, 0, self.control)
        return agreed[0]

    def turn(self, name: str, label: str) -> None:
        begin = time.monotonic()
        error, figures = None, None
        try:
            figures = take_turn(name, self.base, self.batches, self.args, self.left())
        except Exception as caught:  # whatever a peer raises is a result, too
            error = f"{type(caught).__name__}: {str(caught).splitlines()[0]}"
        gc.collect()
        # Give freed memory back: the next contender starts like this one did, and four workers fit.
        ctypes.CDLL(None).malloc_trim(0)
        gathered: list[Any] = [None] * dist.get_world_size()
        dist.all_gather_object(gathered, (error, figures), self.control)
        self.cost[name] = time.monotonic() - begin
        errors = [error for error, _ in gathered if error]
        if errors:
            # All of them: a timeout on one worker comes from what happened on another.
            text = "; ".join(dict.fromkeys(errors))
            self.result["errors"][name] = text
        else:
            turn = merged([figures for _, figures in gathered])
            self.result["turns"][name].append(turn)
            text = f"{statistics.median(turn['seconds']):8.3f} s x {len(turn['seconds'])}"
        if self.worker == 0:
            spent = self.args.budget - self.left()
            print(f"  {label}  {spent:5.0f} s  {name:20} {text}", file=sys.stderr, flush=True)

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
    parser.add_argument("--budget", type=float, required=True)
    parser.add_argument("--contenders", type=lambda text: text.split(","), required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    dist.init_process_group("gloo", timeout=TURN_TIMEOUT)
    race = Race(args)
    race.run()
    dist.barrier(race.control)
    if race.result["errors"]:
        # A failed peer's threads may hang for good; what was measured is written.
        sys.stderr.flush()
        os._exit(0)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
