"""gradwire.attach on stock DDP, with real processes."""

import copy
import logging
import pickle
import re
from datetime import timedelta

import gradwire
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import METHODS, batch, same, small_net
from worlds import run_world


def train(ddp: nn.Module, worker: int, steps: int) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        x, y = batch(worker, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(ddp(x), y).backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in ddp.parameters()]


STOCK = "stock DDP"


def weights_by_method(worker: int, methods: list[str], cap: float) -> dict[str, list[torch.Tensor]]:
    weights = {}
    for method in methods:
        ddp = DistributedDataParallel(small_net(), bucket_cap_mb=cap)
        if method != STOCK:
            gradwire.attach(ddp, method)
        weights[method] = train(ddp, worker, steps=8)
    return weights


@pytest.mark.parametrize("workers", [2, 4])
@pytest.mark.parametrize("cap", [0.01, 25])
def test_allreduce_equals_stock_ddp_bit_for_bit(workers, cap):
    for weights in run_world(workers, weights_by_method, ["allreduce", STOCK], cap):
        assert same(weights["allreduce"], weights[STOCK])


@pytest.mark.parametrize("workers", [1, 3, 4])
@pytest.mark.parametrize("cap", [0.01, 25])
def test_all_workers_have_the_same_weights(workers, cap):
    first, *others = run_world(workers, weights_by_method, METHODS, cap)
    for method, weights in first.items():
        for other in others:
            assert same(other[method], weights), method


def losses_after_training(worker: int) -> dict[str, tuple[float, dict]]:
    outcome = {}
    for method in METHODS:
        ddp = DistributedDataParallel(small_net())
        gw = gradwire.attach(ddp, method)
        optimizer = torch.optim.SGD(ddp.parameters(), lr=0.05)
        for _ in range(60):
            x, y = batch(worker, 0)
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(x), y)
            loss.backward()
            optimizer.step()
        outcome[method] = loss.item(), gw.stats()
    return outcome


@pytest.fixture(scope="module")
def trained():
    return run_world(2, losses_after_training)


@pytest.mark.parametrize("method", METHODS)
def test_it_learns_and_reports(method, trained):
    for loss, stats in (outcome[method] for outcome in trained):
        assert loss < 0.7
        assert stats["steps"] == 60
        assert stats["method"] == method
        assert stats["code_ratio"] == stats["gradient_bytes"] / stats["payload_bytes"]
        assert stats["wire_ratio"] == stats["dense_bytes"] / stats["sent_bytes"]
        assert set(stats["code_ratio_by_kind"]) == {"conv", "dense", "other"}
        assert set(stats["plan"]) == {name for name, _ in small_net().named_parameters()}
        assert stats["loss_class"] in ("exact", "rounded", "delayed")
        assert {"encode_seconds", "decode_seconds", "wait_seconds", "recent"} <= set(stats)


def resume(worker: int) -> bool:
    torch.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(40, 30))
    gw = gradwire.attach(ddp, "acpsgd")
    x = torch.randn(5, 40) + worker
    for _ in range(3):
        ddp(x).square().sum().backward()
    saved, model = gw.state_dict(), copy.deepcopy(ddp.module)
    model.zero_grad()
    ddp.zero_grad()
    other = DistributedDataParallel(model)
    gw_other = gradwire.attach(other, "acpsgd")
    gw_other.load_state_dict(saved)
    for wrapped in (ddp, other):
        wrapped(x).square().sum().backward()
    return torch.equal(ddp.module.weight.grad, model.weight.grad)


def test_a_loaded_state_goes_on_where_it_was_saved():
    assert run_world(2, resume) == [True, True]


LOW_RANK = {"min_ratio": 2, "seed": 0, "dtype": "int4", "error_feedback": True}
DEFAULTS = {
    "allreduce": {},
    "half": {"dtype": "bf16"},
    "quant": {"bits": 8, "block": 0, "error_feedback": False},
    "sign": {"mode": "ef", "vote_scale": 1.0, "block": 64, "error_feedback": True, "momentum": 0.0},
    "topk": {"density": 0.01, "dtype": "fp32", "error_feedback": True, "momentum": 0.0},
    "powersgd": {"rank": 32} | LOW_RANK,
    "acpsgd": {"rank": 64} | LOW_RANK,
    "adacomp": {"bin_conv": 50, "bin_dense": 500, "error_feedback": True, "momentum": 0.0},
    "auto": {
        "delayed": False,
        "rank": 0,
        "candidates": "half+quant+quant-4+powersgd+quant-2+acpsgd+topk+adacomp+sign",
    },
}
CHOICES = {
    ("half", "dtype"): '"bf16" or "fp16"',
    ("sign", "mode"): '"ef" or "vote"',
    ("topk", "dtype"): '"fp32" or "bf16" or "fp16"',
    ("powersgd", "dtype"): '"fp32" or "bf16" or "int8" or "int4"',
    ("acpsgd", "dtype"): '"fp32" or "bf16" or "int8" or "int4"',
}


def test_methods_describes_every_variant():
    methods = gradwire.methods()
    for method, entry in methods.items():
        default, *others = entry["variants"]
        assert default == method
        assert entry["variants"][method]["options"] == {}
        assert re.fullmatch("#[0-9a-f]{6}", entry["colour"])
        for name in others:
            assert name.startswith(f"{method}-")
            assert set(entry["variants"][name]["options"]) <= set(entry["options"])
    classes = {name: methods[name]["variants"][name]["loss_class"] for name in methods}
    assert {name for name in classes if classes[name] == "exact"} == {"allreduce"}
    assert {name for name in classes if classes[name] == "rounded"} == {"half", "quant", "auto"}
    bits = {name: v["loss_class"] for name, v in methods["quant"]["variants"].items()}
    assert bits == {"quant": "rounded", "quant-4": "rounded", "quant-2": "delayed"}
    assert len({entry["colour"] for entry in methods.values()}) == len(methods)


def test_methods_describes_every_option():
    methods = gradwire.methods()
    assert all(entry["summary"] for entry in methods.values())
    assert {
        method: {name: option["default"] for name, option in entry["options"].items()}
        for method, entry in methods.items()
    } == DEFAULTS
    for (method, name), rule in CHOICES.items():
        assert methods[method]["options"][name]["rule"] == rule


# --- DDP classes of users, copies of an attached model, groups ---


class Halving(DistributedDataParallel):
    def forward(self, *inputs):
        return super().forward(*inputs) / 2


def attach_to_own_class(worker: int) -> None:
    net, x = nn.Linear(4, 4), torch.ones(2, 4)
    ddp = Halving(net)
    gradwire.attach(ddp, "allreduce")
    assert isinstance(ddp, Halving)
    assert torch.equal(ddp(x), net(x) / 2)
    with ddp.join():
        ddp(x).sum().backward()
    # Each of the 2 samples has a gradient of a half.
    assert torch.equal(net.weight.grad, torch.ones(4, 4))


def test_a_ddp_class_of_the_users_own_stays_what_it_is():
    run_world(2, attach_to_own_class)


def copy_attached(worker: int, kind: type, method: str) -> None:
    x = torch.ones(2, 4)
    ddp = kind(nn.Linear(4, 4))
    gradwire.attach(ddp, method)
    for made in (copy.deepcopy(ddp), pickle.loads(pickle.dumps(ddp))):
        assert type(made) is kind
        assert torch.equal(made(x), ddp(x))
        gw = gradwire.attach(made, method)
        made(x).sum().backward()
        assert gw.stats()["steps"] == 1
        # `auto` has a hook that runs before each forward.
        assert len(made._forward_pre_hooks) == (method == "auto")


@pytest.mark.parametrize("kind", [DistributedDataParallel, Halving])
@pytest.mark.parametrize("method", ["acpsgd", "auto"])
def test_a_copy_is_not_attached_and_may_be(kind, method):
    run_world(2, copy_attached, kind, method)


def kinds_of_bf16_model(worker: int) -> dict[str, float]:
    ddp = DistributedDataParallel(nn.Linear(8, 8).to(torch.bfloat16))
    gw = gradwire.attach(ddp, "allreduce")
    ddp(torch.ones(2, 8, dtype=torch.bfloat16)).sum().backward()
    stats = gw.stats()
    return {"all": stats["code_ratio"], **stats["code_ratio_by_kind"]}


def test_plain_steps_count_by_kind_too():
    # bf16 has half the bytes of fp32. There is no convolution.
    assert run_world(2, kinds_of_bf16_model) == [{"all": 2, "conv": 1, "dense": 2, "other": 2}] * 2


def timeouts_of_further_groups(worker: int) -> set[timedelta]:
    given = dist.new_group([0, 1], timeout=timedelta(seconds=17))
    known = set(dist.distributed_c10d._world.pg_map)
    gradwire.attach(
        DistributedDataParallel(nn.Linear(40, 40), process_group=given), "powersgd", min_ratio=0
    )
    made = set(dist.distributed_c10d._world.pg_map) - known
    return {group._get_backend(torch.device("cpu")).options._timeout for group in made}


def test_further_groups_have_the_timeout_of_the_given_one():
    assert run_world(2, timeouts_of_further_groups) == [{timedelta(seconds=17)}] * 2


def warned_of(worker: int) -> list[str]:
    messages: list[str] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logging.getLogger("gradwire").addHandler(Kept())
    net = nn.Sequential(nn.Linear(64, 64), nn.Linear(64, 64))
    for method, options in (
        ("topk", {"skip": ["*.bias", "module.0.*"]}),
        ("topk", {"per_parameter": {"1.*": {"density": 0.1}, "2.*": {"density": 0.2}}}),
        ("acpsgd", {"rank": 64, "dtype": "fp32"}),
        ("allreduce", {}),
    ):
        gradwire.attach(DistributedDataParallel(copy.deepcopy(net)), method, **options)
    dist.barrier()  # worker 0 takes the store with it when it ends, and others may still need it
    return messages


def test_what_has_no_effect_is_said_once():
    messages = run_world(2, warned_of)
    assert [text.split(": ", 1)[1].split(";")[0] for text in messages[0]] == [
        "no parameter matches 'module.0.*'",
        "no parameter matches '2.*'",
        "acpsgd finds nothing to compress in this model",
    ]
    assert messages[1] == []
