"""`gradwire plan` as a user runs it, and gradwire.plan(), which must give the same result."""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ElementTree

import gradwire
import pytest
from built import COMMAND, needs_build

pytestmark = needs_build


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
    # In two panels, all methods that compress.
    assert len(lines) == 2 * (len(result["points"][0]["methods"]) - 1)


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


LINK = {
    "format": "gradwire-link-1",
    "workers": 4,
    "all_reduce": {"latency_seconds": 1e-4, "gbit_per_s": 0.95},
    "all_gather": {"latency_seconds": 2e-4, "gbit_per_s": 0.9},
    "all_to_all": {"latency_seconds": 3e-4, "gbit_per_s": 0.5},
}
PROFILE = {
    "format": "gradwire-profile-1",
    "name": "mine",
    "device": "cpu",
    "forward_seconds": 0.1,
    "backward_seconds": 0.2,
    "parameters": [{"name": "weight", "shape": [4096, 4096], "kind": "dense"}],
    "buckets": [{"parameters": [0], "ready_seconds": 0.2,
                 "encode_seconds": 0.02, "decode_seconds": 0.5}],
    "measured": {"method": "topk", "workers": 4, "density": 0.01},
}  # fmt: skip


def as_options(arguments: dict) -> list[str]:
    options = []
    for name, value in arguments.items():
        text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
        options += [f"--{name.replace('_', '-')}", text]
    return options


@pytest.mark.parametrize(
    "arguments",
    [
        {"compute": 0.2},
        {"model": "resnet-50", "compute": "180ms", "workers": [32, 8], "bandwidth": "10gbit",
         "methods": ["half", "acpsgd"], "rank": 8},
        {"model": "bert-large", "compute": 0.3, "workers": 64, "bandwidth": ["1gbit", "25gbit"],
         "latency": 5e-05, "workers_per_node": 8, "node_bandwidth": "80gbit",
         "node_latency": "10us", "all_reduce": "ring", "device": "cpu", "device_memory_gbs": 20.0,
         "device_tflops": 0.2, "min_ratio": 3.0, "density": 0.001, "adacomp_conv_rate": 30.0,
         "adacomp_dense_rate": 100.0},
        {"profile": PROFILE, "link": LINK},
        {"compute": 1, "link": LINK, "workers": [2, 4], "bandwidth": "10gbit"},
    ],
)  # fmt: skip
def test_python_and_the_command_say_the_same(arguments, tmp_path):
    options = dict(arguments)
    for name in ("profile", "link"):
        if name in options:
            options[name] = tmp_path / f"{name}.json"
            options[name].write_text(json.dumps(arguments[name]))
    figures = tmp_path / "plan.json"
    run = plan(*as_options(options), "--json", str(figures))
    assert run.returncode == 0, run.stderr
    assert gradwire.plan(**arguments) == json.loads(figures.read_text())
    assert gradwire.plan(**options) == json.loads(figures.read_text())


def test_link_sets_workers_bandwidth_and_the_pace_of_every_collective():
    linked = gradwire.plan(compute=0.2, link=LINK, methods=["half"])
    (point,) = linked["points"]
    assert (point["workers"], point["gbit_per_s"]) == (4, pytest.approx(0.95))
    # The all-to-all of this link is slow. That slows half, which needs one, but not all-reduce.
    even = {**LINK, "all_to_all": LINK["all_reduce"]}
    (other,) = gradwire.plan(compute=0.2, link=even, methods=["half"])["points"]
    assert point["methods"]["allreduce"] == other["methods"]["allreduce"]
    assert point["methods"]["half"]["seconds"] > 1.1 * other["methods"]["half"]["seconds"]


def test_what_was_measured_counts_for_its_method_alone():
    profile = {**PROFILE, "buckets": [{**PROFILE["buckets"][0], "decode_seconds": 5.5}]}
    (slow,), (fast,) = (
        gradwire.plan(profile=p, workers=4, bandwidth="1gbit")["points"] for p in (profile, PROFILE)
    )
    difference = {
        name: slow["methods"][name]["seconds"] - fast["methods"][name]["seconds"]
        for name in slow["methods"]
    }
    assert difference.pop("topk") == pytest.approx(5)
    assert set(difference.values()) == {0}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "compute is missing"),
        ({"compute": 0.2, "rank": 0}, "rank must be positive; got 0"),
        ({"compute": 0.2, "workers": [0]}, "workers must be positive; got 0"),
        ({"compute": 0.2, "profile": PROFILE}, "profile and compute exclude one another"),
        ({"compute": 0.2, "link": "/does/not/exist"}, "cannot read the link /does/not/exist"),
        ({"compute": 0.2, "link": {}}, r"\[link\] format is missing"),
        ({"compute": 0.2, "methods": ["zip"]}, "there are allreduce, half"),
        ({"compute": 0.2, "bandwidth": 10}, "bandwidth must hold texts, not 10"),
    ],
)
def test_python_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        gradwire.plan(**arguments)
