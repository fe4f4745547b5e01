"""The cost of AdaComp's coding on real gradients of a fully connected layer."""

import gzip
import math
from collections import Counter
from pathlib import Path

import gradwire
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from worlds import run_world

DATA = Path("/usr/share/datasets/fashion-mnist")


def fashion_mnist(samples: int) -> tuple[torch.Tensor, torch.Tensor]:
    def read(name: str, header: int) -> torch.Tensor:
        with gzip.open(DATA / name) as file:
            return torch.frombuffer(bytearray(file.read()[header:]), dtype=torch.uint8)

    images = read("train-images-idx3-ubyte.gz", 16).view(-1, 784)[:samples]
    return images.float() / 255, read("train-labels-idx1-ubyte.gz", 8)[:samples].long()


def entropy(symbols: list[int]) -> float:
    """Returns the bits per symbol, from the frequencies of these symbols."""
    counts = Counter(symbols)
    return -sum(c / len(symbols) * math.log2(c / len(symbols)) for c in counts.values())


def bits_per_sent_element(worker: int) -> dict[str, float]:
    images, labels = fashion_mnist(12800)
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(784, 1024, bias=False), nn.ReLU(), nn.Linear(1024, 10))
    ddp = DistributedDataParallel(net)
    gw = gradwire.attach(ddp, "adacomp", skip=["2.*"])
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05, momentum=0.9)
    gaps, signs, payload, sent = [], [], 0, 0
    for step in range(200):
        part = torch.arange(64 * step, 64 * (step + 1))
        before = gw.stats()["payload_bytes"]
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(images[part]), labels[part]).backward()
        optimizer.step()
        if step < 100:
            continue  # only the steady state counts
        # With one worker, the result is what it sent.
        result = net[0].weight.grad.flatten()
        positions = result.nonzero().flatten()
        gaps += positions.diff(prepend=torch.tensor([-1])).tolist()
        signs += result[positions].sign().int().tolist()
        sent += len(positions)
        payload += gw.stats()["payload_bytes"] - before - 4 * (1024 * 10 + 10)
    return {
        "bits": 8 * payload / sent,
        "entropy": entropy(gaps) + entropy(signs),
        "density": sent / (100 * 784 * 1024),
    }


@pytest.mark.skipif(not DATA.exists(), reason="dataset-fashion-mnist is not installed")
def test_a_sent_element_costs_at_most_12_bits():
    """This includes headers and the padding up to the agreed capacity. The coding alone is within
    1.15 of the entropy (tests/wire/gap_code_test.cpp)."""
    (figures,) = run_world(1, bits_per_sent_element)
    print(figures)
    assert figures["bits"] <= 12, figures
    assert figures["bits"] <= 1.5 * figures["entropy"], figures
