"""One worker of the tests of `auto`, on an emulated host. It can slow down its own link.

python auto_worker.py FOLDER SCENARIO
"""

from __future__ import annotations

import json
import logging
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import gradwire
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SLOW = "40mbit"


def set_rate(rate: str) -> None:
    """Limits the rate at which this host sends."""
    limit = ["tbf", "rate", rate, "burst", "64kb", "latency", "200ms"]
    command = ["tc", "qdisc", "replace", "dev", os.environ["GLOO_SOCKET_IFNAME"], "root", *limit]
    subprocess.run(command, check=True)


class Job:
    """An MLP of 4 MB, its method and its data."""

    def __init__(self, samples: int = 8, **options: str | bool) -> None:
        self.samples = samples
        torch.manual_seed(5)
        net = nn.Sequential(nn.Linear(1000, 500), nn.ReLU(), nn.Linear(500, 1000))
        self.ddp = DistributedDataParallel(net, bucket_cap_mb=1)
        self.gw = gradwire.attach(self.ddp, "auto", **options)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=0.01, momentum=0.9)
        self.seconds: list[float] = []

    def step(self, number: int) -> None:
        generator = torch.Generator().manual_seed(100 * number + dist.get_rank())
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        self.ddp(torch.randn(self.samples, 1000, generator=generator)).square().mean().backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - begin)

    def run(self, first: int, end: int) -> None:
        for number in range(first, end):
            self.step(number)

    def methods(self) -> list[str]:
        plan = self.gw.stats()["plan"]
        return sorted({text.split()[0] for text in plan.values()})

    def weights(self) -> list[torch.Tensor]:
        return [p.detach().clone() for p in self.ddp.parameters()]


def slow_link() -> dict:
    job = Job(candidates="topk+sign", delayed=True)
    job.run(0, 6)
    before = job.methods()
    job.run(6, 15)
    return {
        "before": before,
        "after": job.methods(),
        "plan": job.gw.stats()["plan"],
        "plain_seconds": statistics.median(job.seconds[2:6]),
        "seconds": statistics.median(job.seconds[7:]),
    }


def link_that_becomes_slow() -> dict:
    job = Job(samples=2048)  # computing takes longer than sending 4 MB
    job.run(0, 12)
    at_first = job.methods()
    set_rate(SLOW)
    job.run(12, 60)
    return {"at_first": at_first, "later": job.methods(), "plan": job.gw.stats()["plan"]}


def resumed() -> dict:
    """Saves in the middle of a trial and stops in the next one. When all trials are over, the clock
    decides, and two runs may decide differently."""
    job = Job()
    job.run(0, 8)
    saved_methods = job.methods()
    model, optimizer = job.ddp.state_dict(), job.optimizer.state_dict()
    model = {name: tensor.clone() for name, tensor in model.items()}
    path = Path(sys.argv[1]) / f"state{dist.get_rank()}.pt"
    gradwire.save({"gradwire": job.gw.state_dict(), "optimizer": optimizer}, path)
    job.run(8, 18)
    saved = torch.load(path, weights_only=True)
    other = Job()
    other.ddp.load_state_dict(model)
    other.optimizer.load_state_dict(saved["optimizer"])
    other.gw.load_state_dict(saved["gradwire"])
    at_once = other.methods()
    other.run(8, 18)
    return {
        "saved": saved_methods,
        "at_once": at_once,
        "later": [job.methods(), other.methods()],
        "same": all(map(torch.equal, job.weights(), other.weights())),
    }


class Messages(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def main() -> None:
    torch.set_num_threads(1)
    messages = Messages()
    logging.getLogger("gradwire").addHandler(messages)
    dist.init_process_group("gloo")
    outcome = globals()[sys.argv[2]]()
    outcome["messages"] = messages.texts
    (Path(sys.argv[1]) / f"outcome{dist.get_rank()}.json").write_text(json.dumps(outcome))
    dist.barrier()


if __name__ == "__main__":
    main()
