"""Parameters that are unused in a step, skipped, frozen or shared, with every method."""

import pytest
import torch
from torch import nn
from training import VARIANTS, Training, alike, attached, same
from worlds import run_world


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.trunk = nn.Linear(40, 40)
        self.left = nn.Linear(40, 30)
        self.right = nn.Linear(40, 30)

    def forward(self, x: torch.Tensor, left: bool) -> torch.Tensor:
        x = self.trunk(x)
        return self.left(x) if left else self.right(x)


def unused_parameters(worker: int) -> dict:
    outcome = {}
    for variant in VARIANTS:
        ddp, gw = attached(Branches(), variant, find_unused_parameters=True)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
        generator = torch.Generator().manual_seed(worker)
        for step in range(8):
            optimizer.zero_grad()
            # At first the workers use different branches, then all use the same.
            left = (worker + step) % 2 == 0 if step < 4 else step % 2 == 0
            ddp(torch.randn(5, 40, generator=generator), left).square().mean().backward()
            optimizer.step()
        assert gw.stats()["steps"] == 8
        outcome[variant] = [p.detach().clone() for p in ddp.parameters()]
    return outcome


@pytest.mark.parametrize("workers", [2, 3])
def test_unused_parameters(workers):
    alike(run_world(workers, unused_parameters))


def buckets_left_out(worker: int) -> dict[str, tuple[int, list[torch.Tensor]]]:
    outcome = {}
    for variant in VARIANTS:
        # Buckets of one byte, so every parameter has its own.
        options = {"find_unused_parameters": True, "skip_all_reduce_unused_params": True}
        ddp, gw = attached(Branches(), variant, bucket_cap_mb=1e-6, **options)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01)
        generator = torch.Generator().manual_seed(worker)
        for step in range(9):
            optimizer.zero_grad()
            x = torch.randn(5, 40, generator=generator)
            ddp(x, left=step % 3 == 0).square().mean().backward()
            optimizer.step()
        outcome[variant] = gw.stats()["steps"], [p.detach().clone() for p in ddp.parameters()]
    return outcome


def test_a_step_that_leaves_buckets_out_is_a_step():
    first, second = run_world(2, buckets_left_out)
    for variant in VARIANTS:
        assert first[variant][0] == second[variant][0] == 9, variant
        assert same(first[variant][1], second[variant][1]), variant


class Fork(nn.Module):
    """The two ways have no parameter in common."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.left = nn.Linear(40, 30)
        self.right = nn.Linear(40, 30)

    def forward(self, x: torch.Tensor, left: bool) -> torch.Tensor:
        return self.left(x) if left else self.right(x)


def one_way_and_the_other(worker: int) -> dict[str, int]:
    outcome = {}
    # Plain all-reduce has no hook and cannot tell apart steps that share no bucket.
    for variant in (name for name in VARIANTS if name != "allreduce"):
        options = {"find_unused_parameters": True, "skip_all_reduce_unused_params": True}
        ddp, gw = attached(Fork(), variant, bucket_cap_mb=1e-6, **options)
        for step in range(6):
            # The left buckets come after the right ones, as they would in one step.
            ddp(torch.ones(5, 40), left=step % 2 == 1).square().mean().backward()
        outcome[variant] = gw.stats()["steps"]
    return outcome


def test_steps_that_have_no_bucket_in_common_are_steps():
    for outcome in run_world(2, one_way_and_the_other):
        assert set(outcome.values()) == {6}, outcome


def freeze_and_unfreeze(worker: int) -> dict:
    outcome = {}
    for variant in VARIANTS:
        training = Training(variant, find_unused_parameters=True)
        frozen = training.ddp.module[3].weight
        for step in range(9):
            frozen.requires_grad_(not 3 <= step < 6)
            before = frozen.detach().clone()
            # While it is frozen, its gradient is None, and momentum must not move it.
            training.step(worker, step)
            assert torch.equal(before, frozen) == (3 <= step < 6), (variant, step)
        outcome[variant] = training.weights()
    return outcome


def test_frozen_and_unfrozen_later():
    alike(run_world(2, freeze_and_unfreeze))


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.embedding = nn.Embedding(50, 32)
        self.out = nn.Linear(32, 50, bias=False)
        self.out.weight = self.embedding.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.embedding(x))


def tied(worker: int) -> dict:
    outcome = {}
    for variant in VARIANTS:
        ddp, gw = attached(Tied(), variant)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
        generator = torch.Generator().manual_seed(worker)
        for _ in range(4):
            tokens = torch.randint(50, (8,), generator=generator)
            optimizer.zero_grad()
            nn.functional.cross_entropy(ddp(tokens), tokens).backward()
            optimizer.step()
        assert list(gw.stats()["plan"]) == ["embedding.weight"]
        outcome[variant] = [p.detach().clone() for p in ddp.parameters()]
    return outcome


def test_tied_parameters():
    alike(run_world(2, tied))
