"""`gradwire plan` as a user runs it, and gradwire.plan(), which must give the same result."""

from __future__ import annotations

import json
import math
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import gradwire
import pytest
import torch
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
    assert f"\n{result['advice']}\n" in run.stdout
    assert "32 workers" in run.stdout
    svg = ElementTree.parse(picture).getroot()
    lines = svg.findall("{http://www.w3.org/2000/svg}polyline")
    # In two panels, all methods that compress.
    assert len(lines) == 2 * (len(result["points"][0]["methods"]) - 1)


SLOW = {"model": "gpt2", "compute": 0.5, "workers": 4, "bandwidth": "1gbit"}


def test_advice_names_the_class_of_loss_and_the_line_of_code():
    result = gradwire.plan(**SLOW)
    known = {
        variant: description["loss_class"]
        for method in gradwire.methods().values()
        for variant, description in method["variants"].items()
    }
    for method, facts in result["methods"].items():
        assert facts["loss_class"] == known[method]
    (advised,) = result["advised"]
    assert result["methods"][advised]["loss_class"] == "rounded"
    assert result["methods"]["quant-4"]["recipe"] == 'gradwire.attach(ddp, "quant", bits=4)'
    run = plan(*as_options(SLOW))
    assert result["methods"][advised]["recipe"] in run.stdout
    assert "docs/accuracy.md" in run.stdout
    # The possibility is one line, and the further one is that of the reading matter.
    assert run.stdout.splitlines()[-2] == result["possibility"]


def test_delayed_methods_are_advised_only_if_asked_for():
    careful = gradwire.plan(**SLOW)
    assert "--delayed" in careful["possibility"]
    bold = gradwire.plan(**SLOW, delayed=True)
    (advised,) = bold["advised"]
    assert bold["methods"][advised]["loss_class"] == "delayed"
    assert f"{advised} at 1 Gb/s" in careful["possibility"]
    assert bold["possibility"] == ""


def test_the_line_of_code_has_the_options_that_are_no_defaults():
    def recipe(**options) -> str:
        return gradwire.plan(**SLOW, **options)["methods"]["acpsgd"]["recipe"]

    default = gradwire.methods()["acpsgd"]["options"]["rank"]["default"]
    assert recipe() == recipe(rank=default) == 'gradwire.attach(ddp, "acpsgd")'
    assert recipe(rank=default + 1) == f'gradwire.attach(ddp, "acpsgd", rank={default + 1})'
    point, given = (
        gradwire.plan(**SLOW, **options)["points"][0]["methods"]["acpsgd"]
        for options in ({}, {"rank": default})
    )
    assert point == given


def test_any_model_may_be_given_by_its_shapes(tmp_path):
    net = torch.nn.Sequential(torch.nn.Linear(300, 200), torch.nn.Linear(200, 10))
    net[1].bias.requires_grad_(False)
    shapes = {"0.weight": (200, 300), "0.bias": (200,), "1.weight": (10, 200)}
    common = {"compute": 0.1, "workers": 2, "bandwidth": "10mbit"}
    result = gradwire.plan(**common, parameters=net)
    assert result["gradient_bytes"] == 4 * (200 * 300 + 200 + 10 * 200)
    assert gradwire.plan(**common, parameters=shapes) == result
    assert gradwire.plan(**common, parameters=net.named_parameters()) == result
    file, figures = tmp_path / "parameters.json", tmp_path / "plan.json"
    file.write_text(json.dumps([{"name": name, "shape": shapes[name]} for name in shapes]))
    assert gradwire.plan(**common, parameters=file) == result
    run = plan(*as_options({**common, "parameters": file, "json": figures}))
    assert run.returncode == 0, run.stderr
    assert json.loads(figures.read_text()) == result


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{}", "must be a list of"),
        ("[", "is not JSON"),
        ("[1e999]", "is not JSON"),
        ("[]", "parameters is empty"),
        ('[{"name": "w", "shape": [-1]}]', "parameters[0].shape must hold whole numbers, not -1"),
        ('[{"name": "w", "shape": [0]}]', 'parameter "w": its shape must have positive sizes only'),
        ('[{"name": "w", "shape": [9000000000, 9000000000]}]', "more than 1e13 elements"),
        ('[{"name": "w", "shape": [99999999999999999999]}]', "parameters[0].shape must hold"),
        ('[{"nam": "w", "shape": [1]}]', "parameters[0].nam is not a field there is"),
    ],
)
def test_a_wrong_file_of_shapes_is_refused_in_one_line(tmp_path, content, message):
    file = tmp_path / "parameters.json"
    file.write_text(content)
    run = plan("--parameters", str(file), "--compute", "0.1")
    assert run.returncode == 1
    assert message in run.stderr
    assert len(run.stderr.splitlines()) == 1


def test_compute_scales_a_profile():
    common = {"profile": PROFILE, "workers": 1, "bandwidth": "1gbit", "methods": "topk"}
    recorded, faster = gradwire.plan(**common), gradwire.plan(**common, compute=0.03)
    assert recorded["compute_seconds"] == pytest.approx(0.3)
    assert faster["compute_seconds"] == pytest.approx(0.03)
    # What was measured of encoding and decoding stays.
    coding = [
        result["points"][0]["methods"]["topk"]["coding_seconds"] for result in (recorded, faster)
    ]
    assert coding[0] == pytest.approx(coding[1])


ODD = [0, -1, math.nan, math.inf, 1e-320, 1e308, 2**63 - 1]


@pytest.mark.parametrize(
    ("option", "unit"),
    [
        *((option, "s") for option in ("compute", "latency", "node_latency")),
        *((option, "gbit") for option in ("bandwidth", "node_bandwidth")),
        *((option, "") for option in ("workers", "workers_per_node", "rank", "min_ratio",
          "density", "adacomp_dense_rate", "device_memory_gbs", "device_tflops")),
    ],
)  # fmt: skip
def test_whatever_is_asked_no_figure_is_infinite_or_none(option, unit):
    refused = 0
    for value in ODD:
        asked = {"compute": 0.1, "workers": 8, "bandwidth": "1gbit"}
        asked[option] = f"{value!r}{unit}" if unit else value
        try:
            result = gradwire.plan(**asked)
        except ValueError:
            refused += 1
            continue
        shown = json.dumps(result)  # C++ writes null for what is not finite
        assert not re.search(r"\b(nan|inf|infinity|null)\b", shown, re.IGNORECASE), (value, shown)
    assert refused >= 3  # what is negative, infinite or no number


@pytest.mark.parametrize("arguments", [["--compute", "nan"], ["--compute", "0"],
                                       ["--compute", "1", "--device-tflops", "inf"],
                                       ["--compute", "1", "--workers", "-1"]])  # fmt: skip
def test_the_command_refuses_odd_figures_too(arguments):
    assert plan(*arguments).returncode != 0


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
        ({"model": "gpt2", "profile": PROFILE}, "profile and model exclude one another"),
        ({"model": "gpt2", "parameters": {}}, "parameters and model exclude one another"),
        ({"compute": 0.2, "parameters": {}}, "parameters is empty"),
        ({"compute": 0.2, "parameters": {"w": (2, -1)}}, r"parameters\[0\].shape must hold"),
        ({"compute": 0.2, "device_tflops": float("nan")}, "device_tflops must be a finite number"),
        ({"compute": float("inf")}, '"inf" is not a time'),
        ({"compute": 0.2, "delayed": "yes"}, "delayed must be true or false"),
        ({"compute": 0.2, "link": "/does/not/exist"}, "cannot read the link /does/not/exist"),
        ({"compute": 0.2, "link": {}}, r"\[link\] format is missing"),
        ({"compute": 0.2, "methods": ["zip"]}, "there are allreduce, half"),
        ({"compute": 0.2, "bandwidth": 10}, "bandwidth must hold texts, not 10"),
    ],
)
def test_python_says_what_is_wrong(arguments, message):
    with pytest.raises(ValueError, match=message):
        gradwire.plan(**arguments)
