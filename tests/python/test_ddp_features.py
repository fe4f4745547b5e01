"""Features of DDP with every method: accumulation, memory layouts, join, ..."""

import copy
import itertools

import gradwire
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import (
    VARIANTS,
    Training,
    alike,
    attached,
    batch,
    loss_class,
    options_of,
    same,
    small_net,
)
from worlds import run_world

# --- gradient accumulation ---


def accumulate(worker: int) -> dict:
    """Three backwards, two of them under no_sync, are one step with the sum of the gradients."""
    outcome = {}
    for variant in VARIANTS:
        parts, gw = attached(small_net(), variant)
        whole, gw_whole = attached(small_net(), variant)
        equal = True
        for step in range(4):
            parts.zero_grad()
            whole.zero_grad()
            for part in range(3):
                x, y = batch(worker, 3 * step + part)
                if part < 2:
                    with parts.no_sync():
                        nn.functional.cross_entropy(parts(x), y).backward()
                else:
                    nn.functional.cross_entropy(parts(x), y).backward()
            loss = 0
            xs, ys = zip(*(batch(worker, 3 * step + part) for part in range(3)), strict=True)
            logits = whole(torch.cat(xs))
            for part, y in enumerate(ys):
                loss = loss + nn.functional.cross_entropy(logits[6 * part : 6 * part + 6], y)
            loss.backward()
            for a, b in zip(parts.parameters(), whole.parameters(), strict=True):
                # Factors in int4 may be off by a level.
                is_int4 = options_of(variant).get("dtype") == "int4"
                largest = b.grad.abs().max().item() if is_int4 else 0
                equal = equal and torch.allclose(
                    a.grad, b.grad, rtol=2e-2, atol=1e-3 + 0.1 * largest
                )
        outcome[variant] = (equal, gw.stats()["steps"], gw_whole.stats()["steps"])
    return outcome


def test_accumulation_counts_as_one_step():
    for outcome in run_world(2, accumulate):
        for variant, (equal, steps, steps_of_whole) in outcome.items():
            assert steps == steps_of_whole == 4, variant
            # Rounding may change a selection or a sign. All other methods follow the sum.
            if loss_class(variant) != "delayed" or "rank" in options_of(variant):
                assert equal, variant


# --- how the gradients lie in memory ---


def layouts(worker: int) -> dict:
    """channels_last changes the memory layout of gradients, not their values."""
    outcome = {}
    for variant in VARIANTS:
        torch.manual_seed(2)
        net = nn.Sequential(nn.Conv2d(4, 16, 3), nn.Flatten(), nn.Linear(16 * 36, 10))
        nets = [copy.deepcopy(net), copy.deepcopy(net).to(memory_format=torch.channels_last)]
        grads = []
        for each in nets:
            ddp, _ = attached(each, variant)
            for step in range(3):
                generator = torch.Generator().manual_seed(step + worker)
                x = torch.randn(16, 4, 8, 8, generator=generator)
                ddp.zero_grad()
                ddp(x).square().mean().backward()
            grads.append([p.grad.clone() for p in each.parameters()])
        # Only the last bit of bf16 may differ.
        outcome[variant] = all(
            (a - b).norm() <= 0.02 * b.norm() for a, b in zip(*grads, strict=True)
        )
    return outcome


def test_channels_last_compresses_like_any_other():
    for outcome in run_world(2, layouts):
        for variant, equal in outcome.items():
            assert equal, variant


def views_and_graphs(worker: int) -> dict:
    outcome = {}
    for variant in VARIANTS:
        weights = []
        for options in (
            {},
            {"gradient_as_bucket_view": True},
            {"static_graph": True},
            {"static_graph": True, "gradient_as_bucket_view": True},
        ):
            training = Training(variant, **options)
            for step in range(5):
                training.step(worker, step)
            assert training.gw.stats()["steps"] == 5, (variant, options)
            weights.append(training.weights())
        views, *static_graphs = weights[1:]
        agree = close if rounds_factors(variant) else same
        outcome[variant] = [same(weights[0], views)]
        outcome[variant] += [agree(weights[0], other) for other in static_graphs]
    return outcome


def rounds_factors(variant: str) -> bool:
    """Whether a worker keeps what it loses when it rounds its slice of the common factors. Then the
    buckets decide who keeps it, and a static graph begins with other buckets."""
    options = options_of(variant)
    return "rank" in options and options["dtype"] != "fp32"


def close(a: list[torch.Tensor], b: list[torch.Tensor]) -> bool:
    return all((x - y).abs().max() <= 0.02 * x.abs().max() for x, y in zip(a, b, strict=True))


def test_bucket_views_and_static_graph_change_nothing():
    for outcome in run_world(2, views_and_graphs):
        for variant, equal in outcome.items():
            assert equal == [True] * 3, variant


class SparseNet(nn.Module):
    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(5)
        self.embedding = nn.Embedding(60, 24, sparse=sparse)
        self.out = nn.Linear(24, 40)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.embedding(x))


def sparse_embedding(worker: int) -> dict:
    outcome = {}
    for variant in VARIANTS:
        grads = []
        for sparse in (True, False):
            net = SparseNet(sparse)
            method, options = VARIANTS[variant]
            ddp = DistributedDataParallel(net)
            gradwire.attach(ddp, method, skip=["embedding.*"], **options)
            for step in range(3):
                ddp.zero_grad()
                generator = torch.Generator().manual_seed(worker + 10 * step)
                ddp(torch.randint(60, (8,), generator=generator)).square().mean().backward()
            gradient = net.embedding.weight.grad
            assert gradient.is_sparse == sparse
            grads.append(gradient.to_dense() if sparse else gradient)
        outcome[variant] = torch.allclose(*grads, rtol=1e-4, atol=1e-7)
    return outcome


@pytest.mark.parametrize("workers", [2, 3])
def test_sparse_gradients_are_averaged_as_they_are(workers):
    for outcome in run_world(workers, sparse_embedding):
        for variant, equal in outcome.items():
            assert equal, variant


def clipped(worker: int) -> dict:
    outcome = {}
    for variant in VARIANTS:
        ddp, _ = attached(small_net(), variant)
        norms = []
        for step in range(3):
            x, y = batch(worker, step)
            ddp.zero_grad()
            nn.functional.cross_entropy(ddp(x), y).backward()
            norms.append(nn.utils.clip_grad_norm_(ddp.parameters(), 0.1))
        outcome[variant] = norms
    return outcome


def test_gradient_clipping_sees_the_same_norm_everywhere():
    alike(run_world(3, clipped))


# --- uneven inputs ---


def uneven(worker: int, by_initial: bool) -> dict:
    """Worker 0 has two batches, the others have five. After two steps it has no more data."""
    outcome = {}
    for variant in VARIANTS:
        method, options = VARIANTS[variant]
        torch.manual_seed(0)
        net = nn.Linear(80, 100, bias=False)
        ddp = DistributedDataParallel(net)
        gw = gradwire.attach(ddp, method, **options)
        grads = []
        with ddp.join(divide_by_initial_world_size=by_initial):
            for _ in range(2 if worker == 0 else 5):
                ddp.zero_grad()
                ddp(torch.full((3, 80), 1.0 + worker)).sum().backward()
                grads.append(net.weight.grad.mean().item())
        outcome[variant] = (grads, gw.stats()["steps"], gw.state_dict())
    return outcome


def velocities(grads: list[float], variant: str) -> list[float]:
    """Returns what the SGD makes of them that the variant corrects for: velocities are divided."""
    momentum = options_of(variant).get("momentum", 0)
    return list(itertools.accumulate(grads, lambda velocity, grad: momentum * velocity + grad))


def test_join_divides_as_asked():
    """The divisor is three, or two after the second step, when two workers are left."""
    by_initial = run_world(3, uneven, True)
    by_active = run_world(3, uneven, False)
    for variant in VARIANTS:
        is_low_rank = "rank" in options_of(variant)
        for outcomes in (by_initial, by_active):
            assert [outcome[variant][1] for outcome in outcomes] == [5] * 3, variant
            assert outcomes[1][variant][0] == outcomes[2][variant][0], variant
            # The worker without data has the same factors as the others.
            for factor in ("p", "q"):
                factors = [
                    value
                    for worker, outcome in enumerate(outcomes)
                    for key, value in outcome[variant][2].items()
                    if key == f"worker{worker}/weight/{factor}"
                ]
                assert len(factors) == (3 if is_low_rank else 0), (variant, factor)
                assert same(factors[:-1], factors[1:]), (variant, factor)
        initial = velocities(by_initial[1][variant][0], variant)
        active = velocities(by_active[1][variant][0], variant)
        # A vote is not divided by the number of workers.
        factor = 1 if options_of(variant).get("mode") == "vote" else 3 / 2
        assert active[:2] == initial[:2], variant
        assert active[2:] == pytest.approx([factor * g for g in initial[2:]], rel=1e-4), variant
    # All elements of the gradients are 3, 6 and 9 on the three workers.
    assert by_initial[1]["allreduce"][0] == pytest.approx([6, 6, 5, 5, 5])
    assert by_active[1]["allreduce"][0] == pytest.approx([6, 6, 7.5, 7.5, 7.5])


# --- compiled, doubled, in part of the world ---


def compiled(worker: int) -> dict:
    outcome = {}
    for variant in ("acpsgd", "powersgd", "adacomp", "allreduce"):
        plain, gw_plain = attached(small_net(), variant)
        net = torch.compile(small_net(), backend="eager")
        ddp, gw = attached(net, variant)
        for step in range(4):
            x, y = batch(worker, step)
            for each in (plain, ddp):
                each.zero_grad()
                nn.functional.cross_entropy(each(x), y).backward()
        equal = all(
            torch.allclose(a.grad, b.grad, rtol=1e-4, atol=1e-6)
            for a, b in zip(plain.parameters(), ddp.parameters(), strict=True)
        )
        names = list(gw_plain.stats()["plan"]) == list(gw.stats()["plan"])
        gw_plain.load_state_dict(gw.state_dict())
        outcome[variant] = (equal, names)
    return outcome


def test_compiled_module_keeps_its_names():
    for outcome in run_world(2, compiled):
        for variant, checks in outcome.items():
            assert checks == (True, True), variant


def two_models(worker: int) -> bool:
    first, second = Training("powersgd"), Training("acpsgd")
    alone_first, alone_second = Training("powersgd"), Training("acpsgd")
    for step in range(4):
        x, y = batch(worker, step)
        for training in (first, second):
            training.optimizer.zero_grad()
        # One backward goes through both, so their buckets interleave.
        outputs = first.ddp(x) + 0, second.ddp(x) + 0
        sum(nn.functional.cross_entropy(out, y) for out in outputs).backward()
        for training in (first, second):
            training.optimizer.step()
        alone_first.step(worker, step)
        alone_second.step(worker, step)
    return same(first.weights(), alone_first.weights()) and same(
        second.weights(), alone_second.weights()
    )


def test_two_models_in_one_process():
    assert run_world(2, two_models) == [True, True]


def in_sub_groups(worker: int) -> dict:
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    outcome = {}
    for variant in VARIANTS:
        training = Training(variant, process_group=groups[worker // 2])
        for step in range(3):
            training.step(worker, step)
        outcome[variant] = training.weights()
    dist.barrier()  # worker 0 holds the store that the others still need
    return outcome


def test_sub_groups_are_worlds_of_their_own():
    outcomes = run_world(4, in_sub_groups)
    for variant in VARIANTS:
        weights = [outcome[variant] for outcome in outcomes]
        assert same(weights[0], weights[1]), variant
        assert same(weights[2], weights[3]), variant
        assert not same(weights[0], weights[2]), variant
