"""Training that is stopped and resumed, in new processes and in worlds of other sizes."""

import copy
import io
from pathlib import Path

import gradwire
import pytest
import torch
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import VARIANTS, Training, batch, keeps_residual, options_of, same, small_net
from worlds import RaisedError, run_world, run_world_with_errors

STEPS = 6


# There is about one bucket per layer. The layout changes after the first step, and with it the
# order in which the gradients of three workers are added up.
CAP = 0.03


def begun(variant: str, scaled: bool) -> Training:
    # The scale grows at every second step, so it differs between the saved step and the next.
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=2) if scaled else None
    return Training(variant, scaler=scaler, bucket_cap_mb=CAP)


def uninterrupted(worker: int, scaled: bool) -> dict[str, list[torch.Tensor]]:
    weights = {}
    for variant in VARIANTS:
        training = begun(variant, scaled)
        for step in range(STEPS):
            training.step(worker, step)
        weights[variant] = training.weights()
    return weights


def until(worker: int, stop: int, scaled: bool = False) -> dict[str, bytes]:
    files = {}
    for variant in VARIANTS:
        training = begun(variant, scaled)
        for step in range(stop):
            training.step(worker, step)
        file = io.BytesIO()
        torch.save(training.checkpoint(), file)
        files[variant] = file.getvalue()
    return files


def loaded(file: bytes) -> dict:
    return torch.load(io.BytesIO(file), weights_only=True)


def resumed(
    worker: int, stop: int, saved: list[dict[str, bytes]], scaled: bool
) -> dict[str, list[torch.Tensor]]:
    weights = {}
    for variant in VARIANTS:
        training = begun(variant, scaled)
        training.load(loaded(saved[worker][variant]))
        for step in range(stop, STEPS):
            training.step(worker, step)
        weights[variant] = training.weights()
    return weights


# After one step the buckets still have their first layout.
@pytest.mark.parametrize(
    ("workers", "stop", "scaled"),
    [(2, 3, False), (3, 1, False), (3, 4, False), (4, 2, False), (2, 2, True), (3, 3, True)],
)
def test_resume_is_exact(workers, stop, scaled):
    wanted = run_world(workers, uninterrupted, scaled)
    saved = run_world(workers, until, stop, scaled)
    outcome = run_world(workers, resumed, stop, saved, scaled)
    for worker in range(workers):
        for variant in VARIANTS:
            assert same(outcome[worker][variant], wanted[worker][variant]), variant


def through_distributed_checkpoint(worker: int, variant: str, folder: str, stop: int) -> bool:
    first = Training(variant)
    for step in range(stop):
        first.step(worker, step)
    dcp.save({"gradwire": first.gw.state_dict()}, checkpoint_id=folder)
    second = Training(variant)
    second.ddp.module.load_state_dict(first.ddp.module.state_dict())
    second.optimizer.load_state_dict(copy.deepcopy(first.optimizer.state_dict()))
    state = {"gradwire": second.gw.state_dict()}
    dcp.load(state, checkpoint_id=folder)
    second.gw.load_state_dict(state["gradwire"])
    for step in range(stop, stop + 2):
        first.step(worker, step)
        second.step(worker, step)
    return same(first.weights(), second.weights())


@pytest.mark.parametrize("variant", ["acpsgd", "adacomp", "sign"])
def test_distributed_checkpoint_keeps_every_workers_residual(variant, tmp_path):
    outcome = run_world(3, through_distributed_checkpoint, variant, str(tmp_path / "dcp"), 3)
    assert outcome == [True] * 3


def residuals(state: dict) -> dict[str, torch.Tensor]:
    """Returns what is each worker's own."""
    return {
        key.split("/", 1)[1]: value
        for key, value in state.items()
        if key.endswith(("/residual", "/velocity"))
    }


def go_on_with_another_world(worker: int, saved: list[dict[str, bytes]]) -> dict[str, tuple]:
    outcome = {}
    for variant in VARIANTS:
        training = Training(variant)
        merged = gradwire.merge(loaded(files[variant])["gradwire"] for files in saved)
        training.load(loaded(saved[0][variant]), merged)
        pending = residuals(training.gw.state_dict())
        losses = [training.step(worker, step) for step in range(4, 12)]
        outcome[variant] = (pending, sum(losses) / len(losses), training.gw.stats()["steps"])
    return outcome


@pytest.fixture(scope="module")
def saved_by_four():
    return run_world(4, until, 4)


@pytest.mark.parametrize("workers", [3, 6])
def test_world_size_may_change_and_the_mean_residual_stays(workers, saved_by_four):
    saved = saved_by_four
    outcomes = run_world(workers, go_on_with_another_world, saved)
    for variant in VARIANTS:
        before = [residuals(loaded(files[variant])["gradwire"]) for files in saved]
        assert any(r.any() for r in before[0].values()) == keeps_residual(variant), variant
        for name in before[0]:
            wanted = torch.stack([r[name].double() for r in before]).mean(0)
            after = [outcome[variant][0][name].double() for outcome in outcomes]
            got = torch.stack(after).mean(0)
            assert torch.allclose(got, wanted, rtol=1e-6, atol=1e-8), (variant, name)
        for outcome in outcomes:
            _, loss, steps = outcome[variant]
            # A vote moves every weight by the learning rate, which is too large here.
            assert loss < 3 or options_of(variant).get("mode") == "vote"
            assert steps == 12


# --- a state that does not fit is refused and changes nothing; the error names the cause ---


def load_wrong(worker: int, kind: str) -> tuple[str, bool]:
    training = Training("acpsgd")
    for step in range(3):
        training.step(worker, step)
    state = training.gw.state_dict()
    prefix = f"worker{worker}/"
    if kind == "method":
        other = Training("topk")
        state = other.gw.state_dict()
    elif kind == "rank":
        ddp = DistributedDataParallel(training.ddp.module)
        state = gradwire.attach(ddp, "acpsgd", rank=2).state_dict()
    elif kind == "model":
        net = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 10))
        other = Training("acpsgd", net)
        state = other.gw.state_dict()
    elif kind == "worker":
        state = {key.replace(prefix, "worker7/"): value for key, value in state.items()}
    elif kind == "workers":
        state[prefix + "workers"] = 5
    elif kind == "missing":
        del state[prefix + "3.weight/residual"]
    elif kind == "shape":
        state[prefix + "3.weight/p"] = torch.zeros(3, 3)
    elif kind == "damaged":
        state[prefix + "3.weight/residual"][0, 0] = float("nan")
    elif kind == "buckets":
        state[prefix + "buckets"] = torch.tensor([2, 0, 0, 9])
    elif kind == "type":
        state[prefix + "steps"] = None
    before = training.gw.state_dict()
    try:
        training.gw.load_state_dict(state)
    except ValueError as error:
        after = training.gw.state_dict()
        unchanged = all(
            torch.equal(v, after[k]) if isinstance(v, torch.Tensor) else v == after[k]
            for k, v in before.items()
        )
        return str(error), unchanged
    return "nothing was raised", False


KINDS = ("method", "rank", "model", "worker", "workers")
KINDS += ("missing", "shape", "damaged", "buckets", "type")


def load_everything_wrong(worker: int) -> dict[str, tuple[str, bool]]:
    return {kind: load_wrong(worker, kind) for kind in KINDS}


@pytest.fixture(scope="module")
def refusals():
    return run_world(2, load_everything_wrong)


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("method", 'method is "topk", here it is "acpsgd"'),
        ("rank", "rank=2"),
        ("model", "0.weight/treatment is"),
        ("worker", "which is not of worker"),
        ("workers", "it was saved by 5 workers and there are 2 here"),
        ("missing", 'it has no "3.weight/residual"'),
        ("shape", "3.weight/p is a tensor of Float [3, 3]"),
        ("damaged", "not finite"),
        ("buckets", "not a layout"),
        ("type", "neither a tensor nor a number"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(kind, text, refusals):
    for message, unchanged in (outcome[kind] for outcome in refusals):
        assert text in message
        assert unchanged


@pytest.mark.parametrize("how", ["twice", "missing", "another"])
def test_merge_refuses_what_does_not_belong_together(how, saved_by_four):
    states = [loaded(files["acpsgd"])["gradwire"] for files in saved_by_four]
    if how == "twice":
        states[1] = states[0]
    elif how == "missing":
        states = states[:3]
    else:
        states[1]["worker1/steps"] += 1
    with pytest.raises(ValueError, match=r"gradwire\.merge"):
        gradwire.merge(states)


def test_save_leaves_the_old_file_when_it_fails(tmp_path: Path):
    path = tmp_path / "checkpoint.pt"
    gradwire.save({"step": 1}, path)
    with pytest.raises(Exception, match="pickle"):
        gradwire.save({"step": 2, "bad": lambda: None}, path)
    assert torch.load(path, weights_only=True) == {"step": 1}
    assert list(tmp_path.iterdir()) == [path]


def another_seed_in_between(worker: int) -> bool:
    """gradwire must not change the user's random numbers."""
    net = small_net()
    x, y = batch(worker, 0)
    torch.manual_seed(3)
    wanted = torch.rand(4)
    torch.manual_seed(3)
    training = Training("powersgd", net)
    nn.functional.cross_entropy(training.ddp(x), y).backward()
    return torch.equal(torch.rand(4), wanted)


def test_the_global_random_state_is_left_alone():
    assert run_world(2, another_seed_in_between) == [True, True]


def fail_to_load(worker: int) -> None:
    training = Training("acpsgd")
    training.gw.load_state_dict({})


def test_an_empty_state_is_refused():
    for outcome in run_world_with_errors(2, fail_to_load):
        assert isinstance(outcome, RaisedError)
        assert outcome.kind == "ValueError"
