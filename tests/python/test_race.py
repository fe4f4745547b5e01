"""The race from end to end, on one small cell."""

import json
import math

import pytest
from launchers import run_bench

STATS = {"encode_seconds", "wait_seconds", "decode_seconds", "payload_bytes", "sent_bytes"}


def test_a_small_race(tmp_path):
    # The last one has nothing to import on most machines: an error that must stay its own.
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
    assert [set(stats) for stats in cell["stats"]["acpsgd"]] == [STATS]  # it has stayed for both
    assert {"encode", "wait", "decode"} <= set(cell["summary"]["acpsgd"]["breakdown"])

    # 1.3 MB take 0.11 s at 100 Mb/s: the link was as slow as asked for, and only for who used it.
    assert cell["summary"]["ddp"]["median"] > 0.1
    assert cell["summary"]["ddp"]["wire_bytes"] == pytest.approx(4 * cell["parameters"], rel=0.05)
    assert cell["summary"]["compute"]["wire_bytes"] < 10_000

    assert (tmp_path / "performance/tiny.png").stat().st_size > 10_000
    assert cell["title"] in (tmp_path / "performance.md").read_text()
