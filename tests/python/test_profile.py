"""gw.profile(), which records what the planner needs to know of a run."""

from __future__ import annotations

import json
import time
from typing import Any

import gradwire
import pytest
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import VARIANTS
from worlds import RaisedError, run_world, run_world_with_errors

STEPS = 6
PAUSE = 0.05


class Pause(torch.autograd.Function):
    """Makes backward wait, so that later buckets are ready later."""

    @staticmethod
    def forward(context: Any, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(context: Any, gradient: torch.Tensor) -> torch.Tensor:
        time.sleep(PAUSE)
        return gradient


class PausingNet(nn.Module):
    """Two halves of more than a bucket each. Backward pauses between them, and forward once."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.first = nn.Linear(256, 1024)
        self.second = nn.Linear(1024, 512)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        time.sleep(PAUSE)
        hidden = self.first(self.conv(x).flatten(1))
        return self.second(Pause.apply(hidden))


def profiled(worker: int, variant: str) -> tuple[dict[str, Any], dict[str, Any]]:
    method, options = VARIANTS[variant]
    ddp = DistributedDataParallel(PausingNet(), bucket_cap_mb=1)
    gw = gradwire.attach(ddp, method, **options)
    for step in range(STEPS):
        generator = torch.Generator().manual_seed(100 * step + worker)
        ddp(torch.randn(4, 1, 8, 8, generator=generator)).sum().backward()
    return gw.profile(), gw.stats()


@pytest.mark.parametrize(
    ("variant", "rounds", "gathers"),
    [
        ("allreduce", 0, False),
        ("half", 2, False),
        ("sign-vote", 2, False),
        ("topk", 1, True),
        ("acpsgd", 1, False),
    ],
)
def test_a_profile_tells_what_happened_and_can_be_planned_with(variant, rounds, gathers, tmp_path):
    profile, stats = run_world(2, profiled, variant)[0]
    assert json.loads(json.dumps(profile)) == profile
    shapes = {p["name"]: (p["shape"], p["kind"]) for p in profile["parameters"]}
    assert shapes["conv.weight"] == ([4, 1, 3, 3], "conv")
    assert shapes["first.weight"] == ([1024, 256], "dense")
    assert shapes["second.bias"] == ([512], "other")

    buckets = profile["buckets"]
    assert sorted(i for b in buckets for i in b["parameters"]) == list(range(6))
    assert len(buckets) >= 2
    # The bucket of the last layer comes before the pause, those of the first layers after it.
    assert profile["parameters"][buckets[0]["parameters"][0]]["name"].startswith("second")
    assert buckets[-1]["ready_seconds"] - buckets[0]["ready_seconds"] > 0.9 * PAUSE
    assert profile["backward_seconds"] == buckets[-1]["ready_seconds"]
    assert profile["forward_seconds"] > 0.9 * PAUSE
    assert profile["device"] == "cpu"

    measured = profile["measured"]
    assert measured["method"] == variant
    assert measured["workers"] == 2
    assert 2 <= measured["steps"] <= STEPS
    assert all((b["encode_seconds"] > 0) == (rounds > 0) for b in buckets)
    assert all((b["decode_seconds"] > 0) == (rounds > 0) for b in buckets)
    counted = ["encode_seconds", "decode_seconds"]
    if rounds == 2:
        assert all(b["between_seconds"] > 0 for b in buckets)
        counted.append("between_seconds")

    gathered = sum(b.get("gathered_bytes", 0) for b in buckets)
    sent = stats["sent_bytes"] / STEPS  # to the one other worker
    assert gathered == (pytest.approx(sent, rel=0.1) if gathers else 0)

    file = tmp_path / "profile.json"
    file.write_text(json.dumps(profile))
    result = gradwire.plan(profile=file, workers=2, bandwidth="1gbit")
    assert result["compute_seconds"] == pytest.approx(
        profile["forward_seconds"] + profile["backward_seconds"]
    )
    coding = result["points"][0]["methods"][measured["method"]]["coding_seconds"]
    assert coding == pytest.approx(sum(b[name] for b in buckets for name in counted))


def encoding_holds_up_backward(worker: int) -> tuple[dict[str, Any], float]:
    """The time of a slow encoding must not count as computing."""
    ddp = DistributedDataParallel(
        nn.Sequential(*(nn.Linear(1500, 1500) for _ in range(4))), bucket_cap_mb=1
    )
    gw = gradwire.attach(ddp, "powersgd", rank=256, min_ratio=0)
    for _ in range(STEPS):
        ddp(torch.randn(1, 1500)).sum().backward()
    return gw.profile(), gw.stats()["encode_seconds"] / STEPS


def test_ready_times_leave_out_the_encoding_of_other_buckets():
    profile, encode_seconds = run_world(2, encoding_holds_up_backward)[0]
    encoding = sum(b["encode_seconds"] for b in profile["buckets"][:-1])
    assert encoding > 0.1 * encode_seconds
    # Computing is a product with a vector, far less than a product with 256 columns.
    assert profile["backward_seconds"] < encoding


def too_early(worker: int) -> None:
    ddp = DistributedDataParallel(nn.Linear(4, 4))
    gradwire.attach(ddp, "half").profile()


def test_a_profile_before_the_first_step_is_refused():
    for outcome in run_world_with_errors(2, too_early):
        assert isinstance(outcome, RaisedError)
        assert outcome.kind == "RuntimeError"
        assert "there are 0 so far" in outcome.message
