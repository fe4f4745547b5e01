"""gradwire.attach on stock DDP, with real processes."""

import copy
import logging
import pickle
import re
import time
from datetime import timedelta

import gradwire
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision
from training import batch, same, small_net
from worlds import RaisedError, run_world, run_world_with_errors


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
    first, *others = run_world(workers, weights_by_method, list(gradwire.methods()), cap)
    for method, weights in first.items():
        for other in others:
            assert same(other[method], weights), method


def losses_after_training(worker: int) -> dict[str, tuple[float, dict]]:
    outcome = {}
    for method in gradwire.methods():
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


@pytest.mark.parametrize("method", list(gradwire.methods()))
def test_it_learns_and_reports(method, trained):
    for loss, stats in (outcome[method] for outcome in trained):
        assert loss < 0.7
        assert stats["steps"] == 60
        assert stats["method"] == method
        assert stats["code_ratio"] == stats["gradient_bytes"] / stats["payload_bytes"]
        assert stats["wire_ratio"] == stats["dense_bytes"] / stats["sent_bytes"]
        assert set(stats["code_ratio_by_kind"]) == {"conv", "dense", "other"}
        assert set(stats["plan"]) == {name for name, _ in small_net().named_parameters()}
        assert {"encode_seconds", "decode_seconds", "wait_seconds", "residual_norm"} <= set(stats)


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


LOW_RANK = {"rank": 4, "min_ratio": 2, "seed": 0, "dtype": "fp32", "error_feedback": True}
DEFAULTS = {
    "allreduce": {},
    "half": {"dtype": "bf16"},
    "sign": {"mode": "ef", "vote_scale": 1.0, "error_feedback": True},
    "topk": {"density": 0.01, "dtype": "fp32", "error_feedback": True},
    "powersgd": LOW_RANK,
    "acpsgd": {**LOW_RANK, "reuse": True},
    "adacomp": {"bin_conv": 50, "bin_dense": 500, "error_feedback": True},
    "auto": {"rank": 4, "candidates": "half+powersgd+acpsgd+topk+adacomp+sign"},
}
CHOICES = {
    ("half", "dtype"): '"bf16" or "fp16"',
    ("sign", "mode"): '"ef" or "vote"',
    ("topk", "dtype"): '"fp32" or "bf16" or "fp16"',
    ("powersgd", "dtype"): '"fp32" or "bf16"',
    ("acpsgd", "dtype"): '"fp32" or "bf16"',
}


def test_methods_describes_every_option():
    methods = gradwire.methods()
    assert all(entry["summary"] for entry in methods.values())
    assert {
        method: {name: option["default"] for name, option in entry["options"].items()}
        for method, entry in methods.items()
    } == DEFAULTS
    for (method, name), rule in CHOICES.items():
        assert methods[method]["options"][name]["rule"] == rule


# --- a DDP class of the user's own, copies of an attached model, groups ---


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
    # Each of 2 samples has a gradient of a half.
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
        # `auto` looks once before a step.
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
    # Half the bytes of fp32; there is no convolution.
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


# --- wrong use: the error comes on every worker, within seconds, and says what to do ---


def wrong_method(worker: int, who: list[int]) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "topkk" if worker in who else "allreduce")


def wrong_option(worker: int, who: list[int]) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "acpsgd", **({"rnk": 4} if worker in who else {}))


def wrong_value(worker: int, who: list[int]) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "acpsgd", rank=[4] if worker in who else 4)


def wrong_timeout(worker: int, who: list[int]) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "acpsgd", handshake_timeout=float("inf") if worker in who else 20)


def wrong_group(worker: int, who: list[int]) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "acpsgd", process_group="world" if worker in who else None)


def wrong_override(worker: int, who: list[int]) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "acpsgd", per_parameter={"*": 8 if worker in who else {"rank": 8}})


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (wrong_method, 'there is no method "topkk"; the methods are: allreduce'),
        (wrong_option, '[acpsgd] has no option "rnk"; its options are: rank'),
        (wrong_value, "rank must be a number, a string, True or False; got [4]"),
        (wrong_timeout, "handshake_timeout must be a number of seconds above 0 and below 1e9"),
        (wrong_group, "process_group must be of type ProcessGroup; got 'world'"),
        (wrong_override, "per_parameter['*'] must be of type Mapping; got 8"),
    ],
)
@pytest.mark.parametrize("who", [[0, 1, 2], [1], [0]])
def test_a_mistake_raises_on_every_worker(work, text, who):
    begin = time.monotonic()
    outcomes = run_world_with_errors(3, work, who)
    assert time.monotonic() - begin < 30
    for worker, outcome in enumerate(outcomes):
        assert isinstance(outcome, RaisedError), f"worker {worker} raised nothing"
        assert text in outcome.message
        if worker in who:
            assert outcome.kind == "ValueError"
        else:
            assert outcome.kind == "RuntimeError"
            assert f"failed on worker {who[0]}" in outcome.message


def attach_with_timeouts(worker: int) -> None:
    for seconds in (float("nan"), 0, -1.0, 1e9, 10**400, True, "10"):
        ddp = DistributedDataParallel(nn.Linear(4, 4))
        rule = f"a number of seconds above 0 and below 1e9; got {seconds!r}"
        with pytest.raises(ValueError, match=re.escape(rule)):
            gradwire.attach(ddp, "allreduce", handshake_timeout=seconds)


def test_a_handshake_timeout_is_a_number_of_seconds():
    run_world(1, attach_with_timeouts)


def disagree(worker: int) -> None:
    ddp = DistributedDataParallel(nn.Linear(40, 40))
    gradwire.attach(ddp, "acpsgd", rank=2 if worker == 1 else 4)


def test_disagreement_is_named():
    for outcome in run_world_with_errors(3, disagree):
        assert outcome.kind == "RuntimeError"
        assert "options/rank is 4 on worker 0 and 2 on worker 1" in outcome.message


def attach_to_module(worker: int) -> None:
    gradwire.attach(nn.Linear(4, 4), "acpsgd")


def attach_twice(worker: int) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "allreduce")
    gradwire.attach(ddp, "acpsgd")


def attach_after_hook(worker: int) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    ddp.register_comm_hook(None, allreduce_hook)
    gradwire.attach(ddp, "acpsgd")


def attach_after_builtin_hook(worker: int) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    ddp._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
    gradwire.attach(ddp, "allreduce")


def attach_after_backward(worker: int) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    ddp(torch.ones(2, 4)).sum().backward()
    gradwire.attach(ddp, "acpsgd")


def attach_python_reducer(worker: int) -> None:
    torch._dynamo.config.optimize_ddp = "python_reducer"
    gradwire.attach(DistributedDataParallel(nn.Linear(4, 4)), "acpsgd")


def attach_optimizer_in_backward(worker: int) -> None:
    from torch.distributed.optim import _apply_optimizer_in_backward

    net = nn.Linear(4, 4)
    _apply_optimizer_in_backward(torch.optim.SGD, net.parameters(), {"lr": 0.1})
    gradwire.attach(DistributedDataParallel(net), "acpsgd")


def attach_delayed(worker: int) -> None:
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    ddp = DistributedDataParallel(
        net,
        delay_all_reduce_named_params=[("0.bias", net[0].bias)],
        param_to_hook_all_reduce=net[0].weight,
    )
    gradwire.attach(ddp, "acpsgd")


def attach_mixed_precision(worker: int) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    # DDP itself takes the option on accelerators only.
    ddp.mixed_precision = _MixedPrecision(param_dtype=torch.bfloat16)
    gradwire.attach(ddp, "acpsgd")


class FullyShardedDataParallel(nn.Module):
    pass


def attach_fsdp(worker: int) -> None:
    gradwire.attach(FullyShardedDataParallel(), "acpsgd")


@pytest.mark.parametrize(
    ("work", "text"),
    [
        (attach_to_module, "takes a model wrapped in DistributedDataParallel; got Linear"),
        (attach_twice, "attached already"),
        (attach_after_hook, "communication hook already"),
        (attach_after_builtin_hook, "communication hook already"),
        (attach_after_backward, "a backward has run already"),
        (attach_python_reducer, "python_reducer"),
        (attach_optimizer_in_backward, "optimizer in backward"),
        (attach_delayed, "delay_all_reduce_named_params"),
        (attach_mixed_precision, "mixed_precision"),
        (attach_fsdp, "FSDP"),
    ],
)
def test_wrong_use_names_cause_and_cure(work, text):
    for outcome in run_world_with_errors(2, work):
        assert isinstance(outcome, RaisedError)
        assert outcome.kind == "RuntimeError"
        assert text in outcome.message


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
        ("acpsgd", {"rank": 64}),
        ("allreduce", {}),
    ):
        gradwire.attach(DistributedDataParallel(copy.deepcopy(net)), method, **options)
    return messages


def test_what_has_no_effect_is_said_once():
    messages = run_world(2, warned_of)
    assert [text.split(": ", 1)[1].split(";")[0] for text in messages[0]] == [
        "no parameter matches 'module.0.*'",
        "no parameter matches '2.*'",
        "acpsgd finds nothing to compress in this model",
    ]
    assert messages[1] == []
