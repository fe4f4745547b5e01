"""Compares builds of gradwire with each other: has a change made steps slower?

Every build trains a copy of the same model in the lab. The builds take turns of a few steps, in
alternating order, so that a machine that slows down slows down all of them alike.

    python -m bench.trees --build before=/tmp/before/build/release --build after=build/release \\
        --model bert --batch 4 --rate 250mbit --method acpsgd:rank=32
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--build", action="append", required=True, metavar="NAME=FOLDER", help="a build directory"
    )
    parser.add_argument("--model", default="mlp", help="of bench/race/models.py")
    parser.add_argument("--batch", type=int, default=128, help="samples per worker")
    parser.add_argument("--rate", default="1gbit", help="of the lab's links")
    parser.add_argument("--method", default="allreduce", metavar="NAME[:KEY=VALUE,...]")
    parser.add_argument("--hosts", type=int, default=2)
    parser.add_argument("--turns", type=int, default=10, help="of each build")
    parser.add_argument(
        "--steps", type=int, default=4, help="timed steps of a turn, an even number"
    )
    parser.add_argument("--warm-up", type=int, default=6, help="steps before the first turn")
    parser.add_argument("--json", type=Path, help="write all step times here")
    parser.add_argument("--role", choices=["driver", "host", "worker"], default="driver",
                        help=argparse.SUPPRESS)  # fmt: skip
    return parser.parse_args()


def parse_method(text: str) -> tuple[str, dict[str, Any]]:
    name, _, pairs = text.partition(":")
    options = {}
    for pair in filter(None, pairs.split(",")):
        key, _, value = pair.partition("=")
        try:
            options[key] = ast.literal_eval(value)
        except (ValueError, SyntaxError):
            options[key] = value
    return name, options


def worker(args: argparse.Namespace) -> None:
    """One build on one host: trains so many steps for every number that it reads."""
    import gradwire
    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel

    # Nothing that asks a build for more than builds of any age know.
    from bench.process_memory import keep_freed_memory
    from bench.race.models import make_batches, make_model

    keep_freed_memory()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    ddp = DistributedDataParallel(make_model(args.model))
    name, options = parse_method(args.method)
    if name != "ddp":
        gradwire.attach(ddp, name, **options)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.0)
    batches = make_batches(args.model, args.batch, dist.get_rank())
    taken = 0
    for line in sys.stdin:
        seconds = []
        for _ in range(int(line)):
            batch = batches[taken % len(batches)]
            taken += 1
            dist.barrier()
            begin = time.perf_counter()
            optimizer.zero_grad()
            output = ddp(**batch)
            (output if isinstance(output, torch.Tensor) else output.loss).backward()
            optimizer.step()
            slowest = torch.tensor([time.perf_counter() - begin])
            dist.all_reduce(slowest, dist.ReduceOp.MAX)
            seconds.append(slowest.item())
        print(json.dumps(seconds), flush=True)


def host(args: argparse.Namespace) -> None:
    """One host of the lab: a process of each build, which take turns as on every other host."""
    builds = [pair.partition("=")[::2] for pair in args.build]
    processes = {}
    for index, (name, folder) in enumerate(builds):
        port = str(int(os.environ["MASTER_PORT"]) + 1 + index)
        processes[name] = subprocess.Popen(
            [sys.executable, "-m", "bench.trees", *sys.argv[1:], "--role", "worker"],
            env=os.environ | {"PYTHONPATH": f"{folder}/python:{ROOT}", "MASTER_PORT": port},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def take_turn(name: str, steps: int) -> list[float]:
        process = processes[name]
        process.stdin.write(f"{steps}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker of {name} has ended with status {process.wait()}")
        return json.loads(line)

    try:
        for name in processes:
            take_turn(name, args.warm_up)
        for turn in range(args.turns):
            for name in list(processes)[:: 1 if turn % 2 == 0 else -1]:
                seconds = take_turn(name, args.steps)
                if os.environ["RANK"] == "0":
                    print(json.dumps({"name": name, "turn": turn, "seconds": seconds}), flush=True)
    finally:
        for process in processes.values():
            process.stdin.close()
            process.kill()


def driver(args: argparse.Namespace) -> None:
    builds = [
        f"{n}={Path(folder).resolve()}" for n, _, folder in (b.partition("=") for b in args.build)
    ]
    command = Path(builds[-1].partition("=")[2]) / "bin/gradwire"
    flags = [x for build in builds for x in ("--build", build)]
    for option in ("model", "batch", "method", "turns", "steps", "warm_up"):
        flags += ["--" + option.replace("_", "-"), str(getattr(args, option))]
    done = subprocess.run(
        [command, "lab", "--hosts", str(args.hosts), "--rate", args.rate, "--threads", "1", "--",
         sys.executable, "-m", "bench.trees", *flags, "--role", "host"],
        cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    turns = [
        json.loads(line[line.index("{") :]) for line in done.stdout.splitlines() if "{" in line
    ]
    if args.json:
        args.json.write_text(json.dumps(turns, indent=1))
    report(args, turns)


def report(args: argparse.Namespace, turns: list[dict[str, Any]]) -> None:
    """Medians of all steps, and how each build compares with the first, turn by turn."""
    names = [build.partition("=")[0] for build in args.build]
    steps = {name: [t["seconds"] for t in turns if t["name"] == name] for name in names}
    print(f"{args.model}, batch {args.batch}, {args.rate}, {args.method}, {args.turns} turns")
    for name in names:
        seconds = statistics.median(s for turn in steps[name] for s in turn)
        ratios = [
            statistics.mean(own) / statistics.mean(first)
            for own, first in zip(steps[name], steps[names[0]], strict=True)
        ]
        low, middle, high = statistics.quantiles(ratios, n=4)
        print(
            f"  {name:10} {seconds:.4f} s a step, {middle:.3f} of {names[0]} "
            f"(quartiles of the turns {low:.3f} to {high:.3f})"
        )


if __name__ == "__main__":
    parsed = arguments()
    {"driver": driver, "host": host, "worker": worker}[parsed.role](parsed)
