"""Runs the race on one small cell."""

import json
import math

import pytest
import torch
import torch.distributed as dist
from built import ROOT
from launchers import run_bench
from worlds import run_world

STATS = {"encode_seconds", "wait_seconds", "decode_seconds", "payload_bytes", "sent_bytes"}


def test_a_small_race(tmp_path):
    # On most machines the last one cannot be imported. That error must not affect the others.
    contenders = "compute,ddp,acpsgd,epfml-powersgd"
    files = ("--json", tmp_path / "race.json", "--report", tmp_path)
    run_bench("race", "--cells", "tiny", "--contenders", contenders, *files, timeout=120)

    race = json.loads((tmp_path / "race.json").read_text())
    assert {"date", "cpu", "cores", "torch", "transformers", "gradwire"} <= set(race["environment"])
    cell = race["cells"]["tiny"]
    assert cell["rate"] == "100mbit"
    assert cell["workers"] == 2
    raced = {"compute", "ddp", "acpsgd"}
    assert raced <= set(cell["summary"])
    assert set(cell["errors"]) == {"epfml-powersgd"} - set(cell["summary"])
    for name in raced:
        figures = cell["summary"][name]
        assert figures["n"] == 4
        assert all(math.isfinite(figures[key]) for key in ("median", "vs_compute", "vs_ddp"))
        assert {"forward", "backward", "optimizer"} <= set(figures["breakdown"])
        assert [len(turn["seconds"]) for turn in cell["turns"][name]] == [2, 2]
    assert [set(stats) for stats in cell["stats"]["acpsgd"]] == [STATS]  # it left only once
    assert {"encode", "wait", "decode"} <= set(cell["summary"]["acpsgd"]["breakdown"])

    # Sending 1.3 MB takes 0.11 s at 100 Mb/s, so the link was as slow as requested.
    assert cell["summary"]["ddp"]["median"] > 0.1
    assert cell["summary"]["ddp"]["wire_bytes"] == pytest.approx(4 * cell["parameters"], rel=0.05)
    assert cell["summary"]["compute"]["wire_bytes"] < 10_000

    assert (tmp_path / "performance/tiny.png").stat().st_size > 10_000
    assert cell["title"] in (tmp_path / "performance.md").read_text()


def gradients_and_gatherings(worker: int, name: str) -> tuple[list[torch.Tensor], int]:
    """Returns the gradients of a contender after four steps, and how often it gathered."""
    from bench.race import gathering
    from bench.race.contenders import CONTENDERS
    from bench.race.models import make_batches, make_model

    calls = []
    original = gathering.sum_of_gathered
    gathering.sum_of_gathered = lambda *args: calls.append(args) or original(*args)
    contender = CONTENDERS[name](make_model("mlp-small"), dist.group.WORLD, 4)
    for batch in make_batches("mlp-small", 8, worker):
        contender.prepare()
        contender.step(batch)
    return [parameter.grad for parameter in contender.model.parameters()], len(calls)


@pytest.mark.parametrize("name", ["ddp", "powersgd", "acpsgd"])
def test_gathering_gives_the_same_gradients_as_all_reduce(name, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    [(reduced, no_calls), *_] = run_world(3, gradients_and_gatherings, name)
    assert no_calls == 0
    for gathered, calls in run_world(3, gradients_and_gatherings, f"{name}-gathered"):
        assert calls >= 4
        torch.testing.assert_close(gathered, reduced, rtol=1e-3, atol=1e-5)
