"""One worker in the lab: what `stats()` says was sent beside what the interface counted."""

import json
import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from training import VARIANTS, Training

HEADERS = 14 + 20 + 32  # Ethernet, IP, TCP with time stamps: of every packet, bundles count as one
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
        # Options with which every method's payload is at least a megabyte.
        if variant.startswith("topk"):
            VARIANTS[variant][1]["density"] = 0.05
        elif variant.startswith(("acpsgd", "powersgd")):
            VARIANTS[variant][1]["rank"] = 160
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
    # In one piece, so that no other host's line comes in between.
    os.write(1, (json.dumps({"worker": worker, "figures": figures}) + "\n").encode())
    dist.barrier()


if __name__ == "__main__":
    sys.exit(main())
