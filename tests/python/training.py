"""A small model, its data and a training loop that tests share."""

from __future__ import annotations

from typing import Any

import gradwire
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

# `auto` decides by the clock, so two runs may differ. It has tests of its own in test_auto.py.
METHODS = [method for method in gradwire.methods() if method != "auto"]
# The methods, also with options that change what a method keeps or sends. Most numbers only change
# how much of it.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    **{
        name: (method, dict(variant["options"]))
        for method in METHODS
        for name, variant in gradwire.methods()[method]["variants"].items()
        if name == method
        or "momentum" in variant["options"]
        or any(isinstance(v, str | bool) for v in variant["options"].values())
    },
    "acpsgd-no-feedback": ("acpsgd", {"error_feedback": False}),
}


def options_of(variant: str) -> dict[str, Any]:
    """Returns all options of a variant, defaults included."""
    method, options = VARIANTS[variant]
    described = gradwire.methods()[method]["options"]
    return {name: option["default"] for name, option in described.items()} | options


def loss_class(variant: str) -> str:
    method, _ = VARIANTS[variant]
    known = gradwire.methods()[method]["variants"]
    return known.get(variant, known[method])["loss_class"]


def keeps_residual(variant: str) -> bool:
    method, _ = VARIANTS[variant]
    known = gradwire.methods()[method]["variants"]
    feedback = options_of(variant).get("error_feedback", True)
    return known.get(variant, known[method])["keeps_residual"] and feedback


def small_net() -> nn.Module:
    torch.manual_seed(7)
    return nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 6 * 6, 64), nn.Linear(64, 10)
    )


def batch(worker: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 * step + worker)
    return (
        torch.randn(6, 1, 8, 8, generator=generator),
        torch.randint(10, (6,), generator=generator),
    )


class Training:
    """A model, its optimizer and a method."""

    def __init__(
        self,
        variant: str,
        net: nn.Module | None = None,
        scaler: torch.amp.GradScaler | None = None,
        **ddp_options: Any,
    ) -> None:
        method, options = VARIANTS[variant]
        self.ddp = DistributedDataParallel(net or small_net(), **ddp_options)
        self.variant = variant
        self.scaler = scaler or torch.amp.GradScaler("cpu", enabled=False)
        self.gw = gradwire.attach(self.ddp, method, grad_scaler=scaler, **options)
        self.optimizer = torch.optim.SGD(self.ddp.parameters(), lr=0.02, momentum=0.9)

    def step(self, worker: int, number: int) -> float:
        x, y = batch(worker, number)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.ddp(x), y)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss.item()

    def weights(self) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in self.ddp.module.parameters()]

    def checkpoint(self) -> dict[str, Any]:
        return {
            "model": self.ddp.module.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "gradwire": self.gw.state_dict(),
        }

    def load(self, checkpoint: dict[str, Any], state: dict[str, Any] | None = None) -> None:
        self.ddp.module.load_state_dict(checkpoint["model"])
        self.optimizer.load_state_dict(checkpoint["optimizer"])
        self.scaler.load_state_dict(checkpoint["scaler"])
        self.gw.load_state_dict(state or checkpoint["gradwire"])


def same(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def attached(net: nn.Module, variant: str, **ddp_options):
    method, options = VARIANTS[variant]
    ddp = DistributedDataParallel(net, **ddp_options)
    return ddp, gradwire.attach(ddp, method, **options)


def alike(outcomes: list[dict]) -> None:
    for outcome in outcomes:
        for variant in VARIANTS:
            assert same(outcome[variant], outcomes[0][variant]), variant
