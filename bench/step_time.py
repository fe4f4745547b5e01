"""Seconds per training step of each method beside stock DDP, interleaved in one run.

    python bench/step_time.py --workers 2 --methods allreduce acpsgd

Every method trains its own copy of the same model; the copies take turns step by step, so that all
of them see the same disturbances of the machine. What is printed is the median, the quartiles, and
the ratio of the medians to stock DDP's.
"""

from __future__ import annotations

import argparse
import os
import socket
import statistics
import time

import gradwire
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def make_model(width: int, depth: int) -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        *(layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU()))
    )


def run_worker(worker: int, port: int, args: argparse.Namespace) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=worker, world_size=args.workers)
    contestants = {}
    for name in ["stock", *args.methods]:
        ddp = DistributedDataParallel(make_model(args.width, args.depth))
        if name != "stock":
            gradwire.attach(ddp, name)
        contestants[name] = (ddp, torch.optim.SGD(ddp.parameters(), lr=1e-3), [])
    x = torch.randn(args.batch, args.width)
    names = list(contestants)
    for turn in range(args.steps + args.warm_up):
        # The order rotates: who follows whom must not matter.
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            ddp, optimizer, seconds = contestants[name]
            dist.barrier()
            begin = time.perf_counter()
            optimizer.zero_grad()
            ddp(x).square().mean().backward()
            optimizer.step()
            if turn >= args.warm_up:
                seconds.append(time.perf_counter() - begin)
    if worker == 0:
        report({name: seconds for name, (_, _, seconds) in contestants.items()})
    dist.destroy_process_group()


def report(times: dict[str, list[float]]) -> None:
    stock = statistics.median(times["stock"])
    print(f"{'method':12} {'median s':>9} {'quartiles':>17} {'ratio':>7}")
    for name, seconds in times.items():
        low, middle, high = statistics.quantiles(seconds, n=4)
        print(f"{name:12} {middle:9.4f} {low:8.4f} {high:8.4f} {middle / stock:7.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--methods", nargs="+", default=["allreduce", "acpsgd"])
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=16)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--warm-up", type=int, default=5)
    args = parser.parse_args()
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    mp.spawn(run_worker, (port, args), args.workers)


if __name__ == "__main__":
    main()
