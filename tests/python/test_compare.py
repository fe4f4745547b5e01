"""`gradwire compare` for a time, its table and report, and what `make demo` makes of it."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from pathlib import Path

import pytest
from built import ROOT, needs_build
from launchers import skip_without_lab
from test_train import gradwire, train

pytestmark = needs_build

LITTLE = ["--data", "fashion-mnist", "--model", "mlp", "--train-limit", 4000, "--test-limit", 400]


def table(output: str) -> list[list[str]]:
    """Returns the cells of the table, its head first."""
    lines = output[output.index("\nmethod") + 1 :].split("\n\n")[0].splitlines()
    return [re.split(r"\s{2,}", line.strip()) for line in lines]


@pytest.fixture(scope="module")
def timed(tmp_path_factory) -> tuple[dict, str, Path]:
    """What a comparison over two seconds writes and prints."""
    folder = tmp_path_factory.mktemp("timed")
    done = gradwire("compare", "--methods", "allreduce,quant:bits=4,topk,auto", *LITTLE,
                    "--learners", 2, "--seconds", 2, "--spread", 1, "--json", folder / "all.json",
                    "--report", folder / "report")  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads((folder / "all.json").read_text()), done.stdout, folder / "report"


def test_every_method_trains_for_the_same_time(timed):
    comparison, _, _ = timed
    for result in comparison["results"]:
        tests = result["epochs"]
        # One for every twelfth of the time, unless a step was longer than that.
        twelfths = [int(test["elapsed_seconds"] * 12 / 2) for test in tests]
        assert twelfths == sorted(set(twelfths))
        assert all(twelfth >= 1 for twelfth in twelfths)
        assert result["seconds"] == 2
        assert result["steps"] == result["wire"]["steps"] == tests[-1]["step"]
        # It ends when the steps have taken this time; tests do not count.
        assert tests[-1]["elapsed_seconds"] >= 2
        assert all(test["elapsed_seconds"] < 2 for test in tests[:-1])
        so_far = 0.0
        for test in tests:
            so_far += test["seconds"]
            assert test["elapsed_seconds"] == pytest.approx(so_far)
        assert result["losses"][-1]["seconds"] == pytest.approx(so_far)
        assert tests[-1]["epoch"] == pytest.approx(result["steps"] * 32 / 4000, rel=0.01)


def expected_time(tests: list[dict], target: float) -> float | None:
    seconds = accuracy = 0.0
    for test in tests:
        rise = test["test_accuracy"] - accuracy
        if test["test_accuracy"] >= target:
            part = (target - accuracy) / rise if rise > 0 else 1
            return seconds + part * (test["elapsed_seconds"] - seconds)
        seconds, accuracy = test["elapsed_seconds"], test["test_accuracy"]
    return None


def test_methods_are_judged_by_the_time_to_the_accuracy_of_all_reduce(timed):
    comparison, output, _ = timed
    target = comparison["results"][0]["epochs"][-1]["test_accuracy"]
    assert comparison["target_accuracy"] == target
    head, *rows = table(output)
    column = head.index(f"time to {100 * target:.2f} %")
    for result, row in zip(comparison["results"], rows, strict=True):
        time = expected_time(result["epochs"], target)
        assert result["seconds_to_target"] == (None if time is None else pytest.approx(time))
        assert row[column] == ("not reached" if time is None else f"{time:.1f} s")
    assert comparison["results"][0]["seconds_to_target"] is not None


def test_the_setting_and_chance_stand_beside_the_table(timed):
    comparison, output, _ = timed
    step = comparison["results"][0]["seconds_per_step"]
    waiting = 100 * max(0, 1 - comparison["compute_seconds_per_step"] / step)
    assert f"{waiting:.0f} % is waiting for the network" in comparison["setting"]
    assert "2 workers without emulated links" in comparison["setting"]
    assert f"\n{comparison['setting']}\n" in output
    spread = comparison["spread"]
    assert (spread["name"], spread["seeds"]) == ("allreduce", [1, 2])
    assert spread["test_accuracy"][0] == comparison["target_accuracy"]
    apart = 100 * abs(spread["test_accuracy"][0] - spread["test_accuracy"][1])
    chance, choice = comparison["notes"]
    assert f"differences below {apart:.1f} points" in chance
    assert choice.startswith("auto ended with ")
    assert f"\n{chance}\n" in output


def test_classes_of_loss_are_in_table_and_report(timed):
    comparison, output, report = timed
    head, *rows = table(output)
    column = head.index("class of loss")
    assert [row[column] for row in rows[:3]] == ["exact", "rounded", "delayed"]
    classes = [result["wire"]["loss_class"] for result in comparison["results"]]
    assert [row[column] for row in rows] == classes
    page = (report / "index.html").read_text()
    assert page.count("<td>delayed</td>") == classes.count("delayed")
    assert "delayed: a part of it arrives in later steps" in page
    for text in (comparison["setting"], *comparison["notes"]):
        assert text in page
    assert re.search(r"<h2>(.*?)</h2>", page)[1] == "Accuracy over time"
    assert "constant learning rate" in page


def test_epochs_are_compared_with_the_class_of_loss_too(tmp_path):
    done = gradwire("compare", "--methods", "half,adacomp", *LITTLE, "--learners", 2,
                    "--epochs", 1, "--json", tmp_path / "all.json")  # fmt: skip
    assert done.returncode == 0, done.stderr
    head, *rows = table(done.stdout)
    assert head[:4] == ["method", "class of loss", "test accuracy", "test loss"]
    assert [row[:2] for row in rows] == [["half", "rounded"], ["adacomp", "delayed"]]
    assert "target_accuracy" not in json.loads((tmp_path / "all.json").read_text())


def test_all_workers_stop_at_the_same_step(tmp_path):
    result = train(tmp_path, *LITTLE, "--method", "half", "--workers", 3, "--seconds", 1)
    assert result["epochs"][-1]["elapsed_seconds"] >= 1
    assert result["link"] is None


def test_results_name_the_link(tmp_path):
    result = train(tmp_path, *LITTLE, "--method", "quant", "--workers", 2, "--steps", 5,
                   "--link", "100mbit")  # fmt: skip
    assert result["link"] == "100mbit"


@pytest.mark.parametrize(
    "option",
    [("--epochs", 2), ("--steps", 2), ("--cosine",), ("--decay-at", 2), ("--checkpoint", "kept")],
)
def test_a_time_excludes_what_needs_the_number_of_steps(option):
    done = gradwire("train", *LITTLE, "--seconds", 1, *option)
    assert done.returncode != 0
    assert set(done.stderr.splitlines()[0].split()) == {option[0], "excludes", "--seconds"}


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf"])
def test_an_odd_time_is_refused(seconds):
    done = gradwire("train", *LITTLE, f"--seconds={seconds}")
    assert done.returncode != 0
    assert f"--seconds: Value {seconds} not in range" in done.stderr


@pytest.mark.parametrize("command", ["train", "compare"])
def test_help_explains_link_and_time(command):
    shown = gradwire(command, "--help").stdout
    for option in ("--link", "--seconds", "--epochs", "--steps"):
        assert option in shown
    assert "--emulated-link" not in shown


@pytest.mark.parametrize("may_emulate", [True, False])
def test_demo_says_so_where_links_may_not_be_emulated(tmp_path, may_emulate):
    """With a command in the place of ours that only says how it was called."""
    command = tmp_path / "bin/gradwire"
    command.parent.mkdir()
    status = 0 if may_emulate else 1
    command.write_text(f"#!/bin/sh\n[ $1 = lab ] && exit {status}\necho called: $*\n")
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    demo = [ROOT / "scripts/demo.sh", tmp_path]
    shown = subprocess.run(demo, capture_output=True, text=True, check=True).stdout
    assert ("--link 250mbit" in shown) == may_emulate
    assert ("Emulated links are not allowed here" in shown) != may_emulate
    assert "called: compare --methods all --workers 4" in shown


def test_the_command_of_the_demo_is_one_there_is(tmp_path):
    """Its options, for a shorter time and fewer methods."""
    script = (ROOT / "scripts/demo.sh").read_text()
    arguments = script[script.index("compare --methods") :].replace("\\\n", " ").split()
    arguments.remove('"${link[@]}"')
    for option, value in (("--methods", "allreduce"), ("--seconds", "1"), ("--spread", "1"),
                          ("--report", str(tmp_path / "report"))):  # fmt: skip
        arguments[arguments.index(option) + 1] = value
    done = gradwire(*arguments, "--link", "250mbit")
    skip_without_lab(done)
    assert done.returncode == 0, done.stderr
    assert "4 workers joined by emulated links of 250mbit" in done.stdout
    assert os.path.getsize(tmp_path / "report/accuracy_time.png") > 10_000
