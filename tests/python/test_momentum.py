"""Momentum correction: the user's SGD rebuilds the velocity that the workers have sent."""

import gradwire
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import batch, same, small_net
from worlds import run_world

MOMENTUM = 0.9
METHODS = ["sign", "topk", "adacomp"]


class Loop:
    def __init__(self, method: str | None = None, nesterov: bool = False, **options) -> None:
        self.ddp = DistributedDataParallel(small_net(), bucket_cap_mb=0.03)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)
        self.gw = None
        if method is not None:
            self.gw = gradwire.attach(
                self.ddp, method, momentum=MOMENTUM, grad_scaler=self.scaler, **options
            )
        self.optimizer = torch.optim.SGD(
            self.ddp.parameters(), lr=0.02, momentum=MOMENTUM, nesterov=nesterov
        )

    def step(self, worker: int, number: int, bad: str = "") -> None:
        x, y = batch(worker, number)
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.ddp(x), y)
        if worker == 1 and bad == "one parameter":
            loss = loss + (self.ddp.module[3].weight * float("inf")).sum()
        elif worker == 1 and bad == "all parameters":
            loss = loss * float("inf")
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()

    def weights(self) -> list[torch.Tensor]:
        return [parameter.detach().clone() for parameter in self.ddp.parameters()]

    def velocities(self) -> list[torch.Tensor]:
        """Returns the optimizer's."""
        states = (self.optimizer.state[p] for p in self.ddp.parameters())
        return [state["momentum_buffer"].clone() for state in states]

    def common(self) -> list[torch.Tensor]:
        """Returns what gradwire takes for the optimizer's velocities."""
        assert self.gw is not None
        scale = self.gw_scale()
        found = {k.split("/")[1]: v for k, v in self.gw.state_dict().items() if "/common_v" in k}
        return [found[name] / scale for name, _ in self.ddp.module.named_parameters()]

    def gw_scale(self) -> float:
        assert self.gw is not None
        [scale] = [v for k, v in self.gw.state_dict().items() if k.endswith("/loss_scale")]
        return scale


def close(found: list[torch.Tensor], wanted: list[torch.Tensor]) -> bool:
    return all(
        torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(found, wanted, strict=True)
    )


def without_loss(worker: int, nesterov: bool) -> None:
    plain = Loop(nesterov=nesterov)
    corrected = Loop("topk", nesterov, density=1.0)
    late = Loop("topk", nesterov, density=1.0, start_after=3)
    for number in range(10):
        for loop in (plain, corrected, late):
            loop.step(worker, number, bad="all parameters" if number == 6 else "")
    assert close(corrected.weights(), plain.weights())
    assert close(corrected.velocities(), plain.velocities())
    # What the optimizer had before is not in u: it decays by itself, as in plain SGD.
    assert close(late.weights(), plain.weights())


@pytest.mark.parametrize("nesterov", [False, True])
def test_without_loss_it_is_plain_sgd(nesterov):
    run_world(2, without_loss, nesterov)


def velocity_that_was_sent(worker: int, method: str) -> list[torch.Tensor]:
    loop = Loop(method)
    for number in range(8):
        loop.step(worker, number)
        assert close(loop.velocities(), loop.common()), number
    before = loop.weights(), loop.velocities(), loop.common()
    # The step is skipped: for the parameters that were finite, too.
    loop.step(worker, 8, bad="one parameter")
    after = loop.weights(), loop.velocities(), loop.common()
    for a, b in zip(after, before, strict=True):
        assert same(a, b)
    for number in range(9, 14):
        loop.step(worker, number)
        assert close(loop.velocities(), loop.common()), number
    return loop.weights()


@pytest.mark.parametrize("method", METHODS)
def test_the_optimizer_has_the_velocity_that_was_sent(method):
    """Also after steps that a GradScaler skipped, and while its scale changes."""
    first, second = run_world(2, velocity_that_was_sent, method)
    assert same(first, second)


def unused_now_and_then(worker: int, method: str) -> list[torch.Tensor]:
    """A parameter that nobody uses in a step has no gradient, and the optimizer leaves it alone."""
    torch.manual_seed(5)
    net = nn.ModuleDict({"left": nn.Linear(20, 30), "right": nn.Linear(20, 30)})

    class Fork(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.ways = net

        def forward(self, x: torch.Tensor, way: str) -> torch.Tensor:
            return self.ways[way](x)

    ddp = DistributedDataParallel(Fork(), find_unused_parameters=True)
    gw = gradwire.attach(ddp, method, momentum=MOMENTUM)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.01, momentum=MOMENTUM)
    generator = torch.Generator().manual_seed(worker)
    for step in range(9):
        optimizer.zero_grad()
        x = torch.randn(5, 20, generator=generator)
        ddp(x, "left" if step % 3 == 0 else "right").square().mean().backward()
        optimizer.step()
    state = gw.state_dict()
    for name, parameter in ddp.module.named_parameters():
        common = state[f"worker{worker}/{name}/common_velocity"]
        velocity = optimizer.state[parameter]["momentum_buffer"]
        assert torch.allclose(velocity, common, rtol=1e-5, atol=1e-6), name
    return [parameter.detach().clone() for parameter in ddp.parameters()]


@pytest.mark.parametrize("method", METHODS)
def test_a_parameter_that_nobody_uses_keeps_its_velocity(method):
    first, second = run_world(2, unused_now_and_then, method)
    assert same(first, second)


def for_some_parameters(worker: int) -> dict[str, str]:
    ddp = DistributedDataParallel(small_net())
    gw = gradwire.attach(ddp, "topk", per_parameter={"3.*": {"momentum": MOMENTUM}})
    return gw.stats()["plan"]


def test_it_may_differ_between_parameters():
    plan = run_world(2, for_some_parameters)[0]
    assert "momentum=0.9" in plan["3.weight"]
    assert "momentum=0" in plan["4.weight"].split()
