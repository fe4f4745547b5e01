"""After wrong use of gradwire.attach every worker raises within seconds and says what to do."""

import re
import time

import gradwire
import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _MixedPrecision
from worlds import RaisedError, run_world, run_world_with_errors


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
    # DDP itself allows this option only on accelerators.
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
