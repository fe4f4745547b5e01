"""`gradwire bench` measures every method and checks its results."""

from __future__ import annotations

import json
import subprocess

import gradwire
from built import COMMAND


def bench(*arguments: object) -> subprocess.CompletedProcess:
    command = [str(part) for part in (COMMAND, "bench", "--megabytes", 1, "--repeats", 1)]
    return subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True)


def test_every_method_is_measured(tmp_path):
    done = bench("--threads", 2, "--json", tmp_path / "figures.json")
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "figures.json").read_text())
    variants = {
        name: variant
        for method in {row["method"] for row in figures["methods"]}
        for name, variant in gradwire.methods()[method]["variants"].items()
    }
    assert {row["name"].split(",")[0] for row in figures["methods"]} == set(variants)
    candidates = gradwire.methods()["auto"]["options"]["candidates"]["default"].split("+")
    measured = {name for name in variants if name in candidates}
    assert measured == set(candidates)
    for method in figures["methods"]:
        assert method["encode"]["gb_per_s"] > 0
        assert method["decode"]["gb_per_s"] > 0
        assert method["name"] in done.stdout
        # Without a residual the gradient is not conserved.
        if variants[method["name"].split(",")[0]]["keeps_residual"]:
            assert method["error"] < 1e-4, method["name"]


def test_what_is_not_there_is_named(tmp_path):
    done = bench("--only", "magic")
    assert done.returncode == 1
    assert 'there is nothing called "magic" to measure' in done.stderr
    assert "cannot write" in bench("--json", tmp_path / "no" / "figures.json").stderr
