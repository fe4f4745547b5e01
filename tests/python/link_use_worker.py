"""One worker of test_link_use.py. It measures the fastest of some steps; worker 1 is late."""

import sys
import time
from pathlib import Path

import gradwire
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
worker = dist.get_rank()
ddp = DistributedDataParallel(nn.Linear(2048, 2048, bias=False))
gradwire.attach(ddp, "half")
seconds = []
for _ in range(4):
    loss = ddp(torch.ones(1, 2048)).sum()
    dist.barrier()
    time.sleep(0.02 * worker)
    begin = time.perf_counter()
    loss.backward()
    seconds.append(time.perf_counter() - begin)
if worker == 0:
    Path(sys.argv[1]).write_text(str(min(seconds[1:])))
dist.barrier()
