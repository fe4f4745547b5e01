"""One worker in the lab. It reports what `stats()` and the interface count as sent."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from training import VARIANTS, Training, options_of

HEADERS = 14 + 20 + 32  # of a packet: Ethernet, IP, TCP with time stamps
STEPS = 5


def counted() -> int:
    statistics = Path("/sys/class/net/lab0/statistics")
    sent, packets = (int((statistics / name).read_text()) for name in ("tx_bytes", "tx_packets"))
    return sent - HEADERS * packets


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    worker = dist.get_rank()
    figures = {}
    for variant in VARIANTS:
        # With these options every payload has at least a megabyte.
        larger = {"density": 0.05, "rank": 160}
        VARIANTS[variant][1].update(
            {name: value for name, value in larger.items() if name in options_of(variant)}
        )
        side = 3600
        torch.manual_seed(1)
        training = Training(variant, nn.Linear(side, side, bias=False))
        x = torch.randn(2, side, generator=torch.Generator().manual_seed(worker))
        c = torch.randn(2, side, generator=torch.Generator().manual_seed(worker + 9))
        training.ddp(x)  # DDP's own collectives come with the first forward
        figures[variant] = []
        for _ in range(STEPS):
            dist.barrier()
            before, stats = counted(), training.gw.stats()["sent_bytes"]
            training.ddp.zero_grad()
            (training.ddp(x) * c).sum().backward()
            dist.barrier()
            said = training.gw.stats()["sent_bytes"] - stats
            figures[variant].append({"counted": counted() - before, "said": said})
        del training
    # One call of write, so that lines of other hosts do not come in between.
    os.write(1, (json.dumps({"worker": worker, "figures": figures}) + "\n").encode())
    dist.barrier()


if __name__ == "__main__":
    sys.exit(main())
