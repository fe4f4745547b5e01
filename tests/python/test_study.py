"""A part of `make study`: it keeps its results, goes on where it stopped, and writes tables."""

from __future__ import annotations

import json
import re
from pathlib import Path

from built import ROOT, needs_build
from launchers import run_bench

RUNS = [
    "fashion-mlp-sgd-allreduce-2learners-batch8-seed1",
    "fashion-mlp-sgd-adacomp-2learners-batch8-seed1",
    "sweep-cnn-sgd-acpsgd-rank2-2learners-batch32-seed1",
]


def study(folder: Path, report: Path) -> str:
    files = ("--folder", folder, "--report", report)
    return run_bench("study", "--quick", *files, "--only", *RUNS, timeout=300).stdout


def section(text: str, heading: str) -> str:
    return re.split("###|<!--", text.split(heading)[1])[0]


@needs_build
def test_the_study_keeps_what_it_has_and_writes_its_tables(tmp_path):
    report = tmp_path / "accuracy.md"
    report.write_text((ROOT / "docs/accuracy.md").read_text())
    study(tmp_path, report)
    for run in RUNS:
        assert len(json.loads((tmp_path / f"{run}.json").read_text())["epochs"]) == 1
    text = report.read_text()
    assert "### fashion-mlp, sgd" in text
    assert "| `adacomp` | 1 |" in text
    assert "`acpsgd:rank=2`, 2 learners, batch 32" in text
    # Tables of other runs stay as they were.
    for heading in ("### fashion-cnn, sgd", "### speech-dnn, sgd", "### learners"):
        assert section(text, heading) == section((ROOT / "docs/accuracy.md").read_text(), heading)
    assert (tmp_path / "accuracy/learners.png").stat().st_size > 10_000
    assert "](accuracy/learners.png)" in text
    assert "fashion" not in study(tmp_path, report)
    assert report.read_text() == text
