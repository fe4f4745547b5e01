"""`gradwire probe` as a user runs it, with real processes and collectives."""

from __future__ import annotations

import json
import os
import subprocess

import gradwire
import pytest
from built import COMMAND, needs_build
from launchers import skip_without_lab

COLLECTIVES = ("all_reduce", "all_gather", "all_to_all")

pytestmark = needs_build


def gradwire_command(*arguments: object, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in (COMMAND, *arguments)],
        capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, **environment},
    )  # fmt: skip


def test_probe_starts_workers_of_its_own_and_plan_takes_the_result(tmp_path):
    file = tmp_path / "link.json"
    run = gradwire_command("probe", "--workers", 3, "--seconds", 3, "--json", file)
    assert run.returncode == 0, run.stderr
    link = json.loads(file.read_text())
    assert link["workers"] == 3
    for name in COLLECTIVES:
        assert link[name]["gbit_per_s"] > 0.01
        assert link[name]["latency_seconds"] >= 0
        assert link[name]["residual"] >= 0
        assert link[name]["r_squared"] <= 1
        assert name in run.stdout
    assert run.stdout.startswith("3 workers")
    planned = gradwire_command("plan", "--compute", "0.2", "--link", file)
    assert planned.returncode == 0, planned.stderr
    assert "3 workers" in planned.stdout
    assert gradwire.plan(compute=0.2, link=link)["points"][0]["workers"] == 3


@pytest.mark.parametrize(("rate", "gbit_per_s"), [("100mbit", 0.1), ("1gbit", 1)])
def test_probe_finds_the_rate_of_the_lab(rate, gbit_per_s, tmp_path):
    file = tmp_path / "link.json"
    found = []
    for _ in range(5):  # a busy machine may spoil some
        run = gradwire_command(
            "lab", "--hosts", 2, "--rate", rate, "--", COMMAND, "probe", "--json", file
        )
        skip_without_lab(run)
        assert run.returncode == 0, run.stderr
        link = json.loads(file.read_text())
        assert link["gbit_per_s"] == link["all_reduce"]["gbit_per_s"]
        # The factors of the algorithms, such as 2(N-1)/N of a ring, are already taken out.
        found.append([link[name]["gbit_per_s"] for name in COLLECTIVES])
        if found[-1] == pytest.approx([gbit_per_s] * 3, rel=0.15):
            assert link["all_reduce"]["r_squared"] > 0.8, run.stdout
            return
    pytest.fail(f"found {found}")


def test_probe_takes_less_than_ten_seconds(tmp_path):
    file = tmp_path / "link.json"
    seconds = []
    for _ in range(3):  # a busy machine may spoil some
        run = gradwire_command("lab", "--hosts", 4, "--rate", "100mbit", "--", COMMAND, "probe",
                               "--json", file)  # fmt: skip
        skip_without_lab(run)
        assert run.returncode == 0, run.stderr
        seconds.append(json.loads(file.read_text())["probe_seconds"])
        if seconds[-1] < 10:
            return
    pytest.fail(f"it took {seconds} seconds")


def test_a_world_of_one_has_no_network():
    run = gradwire_command("probe", RANK="0", WORLD_SIZE="1")
    assert run.returncode == 1
    assert "[probe] a network has at least 2 workers; got 1" in run.stderr


def test_a_file_that_cannot_be_written_ends_all_workers(tmp_path):
    run = gradwire_command(
        "probe", "--workers", 2, "--seconds", 0.5, "--json", tmp_path / "no" / "link.json"
    )
    assert run.returncode == 1
    assert "cannot write" in run.stderr
