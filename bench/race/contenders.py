"""The contenders: stock DDP, other packages' compression, and every method of gradwire.

Each is a function that takes a copy of the model and returns a `Contender`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gradwire
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

from bench.race.gathering import gather_instead_of_reducing
from bench.race.models import Batch, loss_of

ONE_BUCKET = 1 << 20  # MiB, more than any model has
BUCKET_PER_PARAMETER = 1e-6  # MiB, so one byte: every parameter fills its bucket
LEARNING_RATE = 0.0  # so that all contenders have the same weights and gradients


class Contender:
    """The model without any communication, which the others are compared with."""

    attachment: gradwire.Attachment | None = None
    replaced: torch.library.Library | None = None  # an operator that only this contender replaces
    # DDP rebuilds its buckets after the first step, and torch's PowerSGD begins in the third.
    warm_up = 3
    # `auto` decides by the time between its steps and ignores pauses only as long as they are few.
    shortest_turn = 2

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)

    def prepare(self) -> None:
        """Comes before a step and is not timed."""
        self.optimizer.zero_grad()

    def step(self, batch: Batch) -> tuple[float, float, float]:
        """Returns the seconds of forward, backward and the optimizer."""
        begin = time.perf_counter()
        loss = loss_of(self.model(**batch))
        forward = time.perf_counter()
        loss.backward()
        backward = time.perf_counter()
        self.update()
        return forward - begin, backward - forward, time.perf_counter() - backward

    def update(self) -> None:
        self.optimizer.step()


class EpfmlPowerSGD(Contender):
    """The package of Power-SGD's authors. It aggregates between backward and the step."""

    def __init__(self, model: nn.Module, rank: int) -> None:
        try:
            from powersgd import Config, PowerSGD, optimizer_step
        except ImportError as error:
            raise RuntimeError(
                "the package powersgd is missing or empty (versions 0.0.1 and 0.0.2 of the package "
                "index have no code; install it from its authors' repository)"
            ) from error
        super().__init__(model)
        # The published Power-SGD does two iterations per step, one for each factor.
        config = Config(rank=rank, num_iters_per_step=2, start_compressing_after_num_steps=0)
        self.aggregator = PowerSGD(list(model.parameters()), config)
        self.optimizer_step = optimizer_step

    def prepare(self) -> None:
        pass  # the gradients hold the error feedback, and backward adds to it

    def update(self) -> None:
        self.optimizer_step(self.optimizer, self.aggregator)


def wrapped(model: nn.Module, group: dist.ProcessGroup, **options: Any) -> DistributedDataParallel:
    # All workers have the same weights already, and sending them takes a minute on a slow link.
    # Gradients that live in DDP's buckets save all contenders a copy and the clearing of memory.
    return DistributedDataParallel(
        model, process_group=group, init_sync=False, gradient_as_bucket_view=True, **options
    )


def compute(model: nn.Module, group: dist.ProcessGroup, rank: int) -> Contender:
    return Contender(model)


def ddp(model: nn.Module, group: dist.ProcessGroup, rank: int, **options: Any) -> Contender:
    return Contender(wrapped(model, group, **options))


def torch_fp16(model: nn.Module, group: dist.ProcessGroup, rank: int) -> Contender:
    contender = ddp(model, group, rank)
    contender.model.register_comm_hook(group, default_hooks.fp16_compress_hook)
    return contender


def torch_powersgd(model: nn.Module, group: dist.ProcessGroup, rank: int) -> Contender:
    # With several buckets the order of its collectives differs between workers, and Gloo aborts.
    contender = ddp(model, group, rank, bucket_cap_mb=ONE_BUCKET)
    state = powerSGD_hook.PowerSGDState(group, rank, start_powerSGD_iter=2)
    contender.model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    return contender


def epfml_powersgd(model: nn.Module, group: dist.ProcessGroup, rank: int) -> Contender:
    return EpfmlPowerSGD(model, rank)  # it always uses the group of the world


def ours(
    model: nn.Module,
    group: dist.ProcessGroup,
    rank: int,
    *,
    method: str,
    options: Mapping[str, Any] | None = None,
    bucket_cap_mb: float | None = None,
) -> Contender:
    taken = gradwire.methods()[method]["options"]
    # Factors are in fp32, as torch's are, unless the contender says otherwise.
    default = {"dtype": "fp32"} if {"rank", "dtype"} <= taken.keys() else {}
    of_cell = {"rank": rank} if "rank" in taken else {}
    options = default | dict(options or {}) | of_cell
    contender = ddp(model, group, rank, bucket_cap_mb=bucket_cap_mb)
    contender.attachment = gradwire.attach(contender.model, method, **options)
    if method == "auto":
        # It decides after six steps and tries up to seven decisions, for seven steps each. Close
        # ones and plain steps run again, and the winner first sends the residuals of the others.
        contender.warm_up = 114
        contender.shortest_turn = 4
    return contender


def gathered(
    model: nn.Module, group: dist.ProcessGroup, rank: int, *, make: Callable[..., Contender]
) -> Contender:
    """Another contender, with all-gather in place of all-reduce as long as it lives."""
    contender = make(model, group, rank)
    contender.replaced = gather_instead_of_reducing()
    return contender


# Contenders that may crash come last, so that they cannot spoil the turns of others.
CONTENDERS: dict[str, Callable[[nn.Module, dist.ProcessGroup, int], Contender]] = {
    "compute": compute,
    "ddp": ddp,
    **{
        name: partial(ours, method=method, options=variant["options"])
        for method, description in gradwire.methods().items()
        for name, variant in description["variants"].items()
    },
    # Each of these lacks one of the system optimisations.
    "ddp-unfused": partial(ddp, bucket_cap_mb=BUCKET_PER_PARAMETER),
    "ddp-no-overlap": partial(ddp, bucket_cap_mb=ONE_BUCKET),
    "ddp-gathered": partial(gathered, make=ddp),
    "powersgd-unfused": partial(ours, method="powersgd", bucket_cap_mb=BUCKET_PER_PARAMETER),
    "powersgd-no-overlap": partial(ours, method="powersgd", bucket_cap_mb=ONE_BUCKET),
    "powersgd-gathered": partial(gathered, make=partial(ours, method="powersgd")),
    "acpsgd-unfused": partial(ours, method="acpsgd", bucket_cap_mb=BUCKET_PER_PARAMETER),
    "acpsgd-no-overlap": partial(ours, method="acpsgd", bucket_cap_mb=ONE_BUCKET),
    "acpsgd-gathered": partial(gathered, make=partial(ours, method="acpsgd")),
    "torch-fp16": torch_fp16,
    "torch-powersgd": torch_powersgd,
    "epfml-powersgd": epfml_powersgd,
}
PEERS = ("ddp", "torch-", "epfml-")  # the names of contenders that are not ours begin so
