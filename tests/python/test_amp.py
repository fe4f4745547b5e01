"""Gradients that are not finite, with and without torch's GradScaler."""

import gradwire
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import VARIANTS, batch, options_of, same, small_net
from worlds import run_world

INITIAL_SCALE = 2.0**10
BAD_STEP = 5


def train_with_scaler(worker: int, dtype: torch.dtype) -> dict[str, dict]:
    outcome = {}
    for variant, (method, options) in VARIANTS.items():
        # The result of a vote is ±1 for every element, so it needs a small learning rate.
        lr = 1e-3 if options_of(variant).get("mode") == "vote" else 0.02
        scaler = torch.amp.GradScaler("cpu", init_scale=INITIAL_SCALE, growth_interval=4)
        ddp = DistributedDataParallel(small_net(), bucket_cap_mb=0.03)
        gw = gradwire.attach(ddp, method, grad_scaler=scaler, **options)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=lr)
        skipped, scales, losses = [], [], []
        for step in range(16):
            x, y = batch(worker, step % 4)
            optimizer.zero_grad()
            before = [p.detach().clone() for p in ddp.parameters()]
            with torch.autocast("cpu", dtype=dtype):
                loss = nn.functional.cross_entropy(ddp(x), y)
            factor = float("inf") if step == BAD_STEP and worker == 1 else 1.0
            scaler.scale(loss * factor).backward()
            scaler.step(optimizer)
            scales.append(scaler.get_scale())
            scaler.update()
            losses.append(loss.item())
            if same(before, list(ddp.parameters())):
                skipped.append(step)
        outcome[variant] = {
            "skipped": skipped,
            "scales": scales,
            "losses": losses,
            "weights": [p.detach().clone() for p in ddp.parameters()],
            "finite": all(
                torch.isfinite(v).all()
                for v in gw.state_dict().values()
                if isinstance(v, torch.Tensor)
            ),
        }
    return outcome


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_one_inf_on_one_worker_costs_one_step_on_all(dtype):
    outcomes = run_world(3, train_with_scaler, dtype)
    for variant in VARIANTS:
        for outcome in outcomes:
            figures = outcome[variant]
            assert figures["skipped"] == [BAD_STEP], variant
            assert figures["finite"], variant
            # The scale doubles after four good steps and is halved by the bad one.
            assert figures["scales"][BAD_STEP + 1] == figures["scales"][BAD_STEP] / 2
            assert figures["scales"][-1] > figures["scales"][BAD_STEP + 1]
            assert same(figures["weights"], outcomes[0][variant]["weights"]), variant


def results_in_true_units(worker: int, scales: list[float]) -> dict[str, list[torch.Tensor]]:
    """Returns the result of every step, with these loss scales one after the other."""
    outcome = {}
    for variant, (method, options) in VARIANTS.items():
        scaler = torch.amp.GradScaler("cpu", init_scale=scales[0], growth_interval=10**9)
        ddp = DistributedDataParallel(small_net())
        gradwire.attach(ddp, method, grad_scaler=scaler, **options)
        results = []
        for step, scale in enumerate(scales):
            x, y = batch(worker, step)
            ddp.zero_grad()
            loss = nn.functional.cross_entropy(ddp(x), y)
            if step > 0:
                scaler._scale.fill_(scale)  # as update() does
            scaler.scale(loss).backward()
            results += [p.grad / scale for p in ddp.parameters()]
        outcome[variant] = results
    return outcome


def test_residuals_follow_the_loss_scale():
    """Scales are powers of two, so results in true units must agree in every bit."""
    changing = run_world(2, results_in_true_units, [2.0 ** (8 + step * 3 % 5) for step in range(8)])
    constant = run_world(2, results_in_true_units, [1024.0] * 8)
    for variant in VARIANTS:
        assert same(changing[0][variant], constant[0][variant]), variant


def vote_with_scaler(worker: int) -> list[float]:
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    net = nn.Linear(3, 2, bias=False)
    ddp = DistributedDataParallel(net)
    gradwire.attach(ddp, "sign", mode="vote", vote_scale=0.5, grad_scaler=scaler)
    scaler.scale(ddp(torch.ones(1, 3)).sum()).backward()
    return net.weight.grad.flatten().tolist()


def test_a_vote_is_in_units_of_the_scaled_loss():
    assert run_world(2, vote_with_scaler) == [[4.0] * 6] * 2


def without_a_scaler(worker: int) -> dict[str, list[bool]]:
    outcome = {}
    for variant, (method, options) in VARIANTS.items():
        ddp = DistributedDataParallel(small_net())
        gw = gradwire.attach(ddp, method, **options)
        finite = []
        for step in range(6):
            x, y = batch(worker, step)
            if step == 2 and worker == 0:
                x[0, 0, 0, 0] = float("nan")
            ddp.zero_grad()
            nn.functional.cross_entropy(ddp(x), y).backward()
            finite.append(all(torch.isfinite(p.grad).all() for p in ddp.parameters()))
        finite.append(
            all(torch.isfinite(v).all() for k, v in gw.state_dict().items() if "residual" in k)
        )
        outcome[variant] = [bool(f) for f in finite]
    return outcome


def test_nothing_is_poisoned_without_a_scaler():
    for outcome in run_world(2, without_a_scaler):
        for variant, finite in outcome.items():
            assert finite == [True, True, False, True, True, True, True], variant
