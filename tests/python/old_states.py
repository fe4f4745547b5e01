"""States that released versions have saved, and the step that follows each.

``python tests/python/old_states.py`` writes those of the built version into
tests/python/old_states/. test_old_states.py loads them with every later version.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gradwire
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FOLDER = Path(__file__).parent / "old_states"
WORKERS = 2
# Enough steps for both factors, a steady selection and two layouts of the buckets.
STEPS = 5

VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "allreduce": ("allreduce", {}),
    "half": ("half", {}),
    "sign": ("sign", {"block": 0}),
    "sign_vote": ("sign", {"mode": "vote"}),
    "topk": ("topk", {"density": 0.1}),
    "powersgd": ("powersgd", {"rank": 2, "dtype": "fp32"}),
    "acpsgd": ("acpsgd", {"rank": 2, "dtype": "fp32"}),
    "acpsgd_bf16": ("acpsgd", {"rank": 2, "dtype": "bf16"}),
    "acpsgd_no_feedback": ("acpsgd", {"rank": 2, "dtype": "fp32", "error_feedback": False}),
    "adacomp": ("adacomp", {"bin_dense": 50}),
}


class Feeder(nn.Module):
    """The caller chooses the gradients: the loss is their product with the weights."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix = nn.Parameter(torch.zeros(24, 16))
        self.kernel = nn.Parameter(torch.zeros(8, 3, 3, 3))
        self.bias = nn.Parameter(torch.zeros(16))

    def forward(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        products = zip(self.parameters(), gradients, strict=True)
        return torch.stack([(weight * gradient).sum() for weight, gradient in products]).sum()


def gradients(worker: int, step: int) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + worker)
    return [torch.randn(w.shape, generator=generator) for w in Feeder().parameters()]


def step(ddp: DistributedDataParallel, worker: int, number: int) -> list[torch.Tensor]:
    """Does a step and returns the common gradients."""
    ddp.zero_grad()
    ddp(gradients(worker, number)).backward()
    return [weight.grad.clone() for weight in ddp.parameters()]


def state_and_next(worker: int, method: str, options: dict[str, Any]) -> dict[str, Any]:
    ddp = DistributedDataParallel(Feeder())
    gw = gradwire.attach(ddp, method, **options)
    for number in range(STEPS):
        step(ddp, worker, number)
    state = gw.state_dict()
    return {"state": state, "next": step(ddp, worker, STEPS)}


def state_of_auto(worker: int, steps: int) -> dict[str, Any]:
    ddp = DistributedDataParallel(Feeder())
    gw = gradwire.attach(ddp, "auto", candidates="topk+acpsgd", delayed=True, rank=2)
    for number in range(steps):
        step(ddp, worker, number)
    return {"state": gw.state_dict(), "plan": gw.stats()["plan"]}


def main() -> None:
    from worlds import run_world

    saved: dict[str, Any] = {
        name: run_world(WORKERS, state_and_next, *variant) for name, variant in VARIANTS.items()
    }
    saved["auto"] = {steps: run_world(WORKERS, state_of_auto, steps) for steps in (4, 16, 60)}
    torch.save(saved, FOLDER / f"{gradwire.__version__}.pt")


if __name__ == "__main__":
    main()
