"""`gradwire plan`, as a user runs it."""

from __future__ import annotations

import json
import os
import subprocess
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build/dev"))
COMMAND = BUILD / "bin/gradwire"

# A build that was asked for must have the command; then its absence is a failure.
pytestmark = pytest.mark.skipif(
    "GRADWIRE_BUILD" not in os.environ and not COMMAND.exists(),
    reason=f"GRADWIRE_BUILD is unset and {COMMAND} is not built",
)


def plan(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [COMMAND, "plan", *arguments], capture_output=True, text=True, timeout=60, check=False
    )


def test_plan_prints_and_writes_the_same(tmp_path):
    figures, picture = tmp_path / "plan.json", tmp_path / "plan.svg"
    run = plan(
        "--model", "bert-base", "--compute", "0.2", "--rank", "32", "--workers", "8,32",
        "--bandwidth", "1gbit,400gbit", "--json", str(figures), "--plot", str(picture),
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    result = json.loads(figures.read_text())
    assert [(p["workers"], p["gbit_per_s"]) for p in result["points"]] == [
        (8, 1), (8, 400), (32, 1), (32, 400),
    ]  # fmt: skip
    assert result["points"][0]["methods"]["acpsgd"]["speed_up"] > 5
    assert result["points"][1]["recommended"] == "allreduce"
    assert run.stdout.strip().endswith(result["advice"])
    assert "32 workers" in run.stdout
    svg = ElementTree.parse(picture).getroot()
    lines = svg.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(lines) == 2 * 7  # panels times compressing methods


def test_plan_reads_a_profile(tmp_path):
    profile = tmp_path / "profile.json"
    described = {
        "format": "gradwire-profile-1",
        "name": "mine",
        "forward_seconds": 0.1,
        "backward_seconds": 0.2,
        "parameters": [{"name": "weight", "shape": [4096, 4096]}],
        "buckets": [{"parameters": [0], "ready_seconds": 0.2}],
    }
    profile.write_text(json.dumps(described))
    run = plan("--profile", str(profile), "--workers", "4", "--bandwidth", "1gbit")
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("mine: 67.1 MB of gradient in 1 bucket, 300 ms of compute")
    described["buckets"][0]["ready_seconds"] = "late"
    profile.write_text(json.dumps(described))
    run = plan("--profile", str(profile))
    assert run.returncode == 1
    assert "buckets[0].ready_seconds must be a number" in run.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "bert-base"], "compute is missing"),
        (["--model", "gpt", "--compute", "1"], "resnet-50"),
        (["--compute", "soon"], "a time such as"),
        (["--compute", "1", "--bandwidth", "10"], "a bandwidth such as 10gbit"),
        (["--compute", "1", "--methods", "zip"], "there are allreduce, half"),
        (["--compute", "1", "--workers", "12", "--workers-per-node", "8"], "nodes of 8"),
        (["--profile", "/does/not/exist"], "cannot read the profile"),
    ],
)
def test_plan_says_what_is_wrong(arguments, message):
    run = plan(*arguments)
    assert run.returncode != 0
    assert message in run.stderr + run.stdout
