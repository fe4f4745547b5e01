"""`make study`: it keeps its results, goes on where it stopped, and writes tables and pictures."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from built import needs_build
from launchers import run_bench

from bench.study.equal_loss import STEPS, Outcome, arrives, attempts, first_attempt, outcome
from bench.study.report import write_report
from bench.study.rows import CIFAR, LINKS, ROUNDS, TIMED_STEPS, Run
from bench.study.run import possible_runs

pytestmark = needs_build

RUNS = [
    "fashion-cnn-allreduce-500steps-seed1",
    "fashion-cnn-adacomp-500steps-seed1",
    "gpt-allreduce-500steps-seed1",
    "gpt-acpsgd-rank8-dtypebf16-500steps-seed1",
    "time-lstm-half-50steps-seed1-1gbit-round1",
]


def result(loss: float | None, seconds: float = 0.1, steps: int = 2000) -> dict:
    parts = [steps * i // 100 for i in range(1, 101)]
    return {
        "test_loss": loss,
        "data": "cifar10:somewhere",
        "epochs": [
            {"test_accuracy": 0.5, "test_loss": loss, "code_ratio_by_kind": {"conv": 4, "dense": 8}}
        ],
        "wire": {"code_ratio": 7.5},
        "losses": [{"step": s, "loss": 1 + 100 / s, "seconds": s * seconds} for s in parts],
        "seconds_per_step": seconds,
    }


def all_reduce() -> dict:
    """Three seeds with the mean 1.0 and the spread 0.1, and its steps."""
    losses = {1: 0.9, 2: 1.0, 3: 1.1}
    trained = {Run(CIFAR, "allreduce", STEPS, s): result(loss) for s, loss in losses.items()}
    timed = {
        Run(CIFAR, "allreduce", TIMED_STEPS, link=link, round=r): result(None, seconds=r)
        for link in LINKS
        for r in ROUNDS
    }
    return trained | timed


def finish(method: str, losses: dict[int, float | None], link: str = "") -> tuple[dict, list[int]]:
    """Trains with these final losses by steps. Returns all results and the steps in their order."""
    results, order = all_reduce(), []
    for run in attempts(first_attempt(CIFAR, method, link), results):
        results[run] = result(losses[run.steps], steps=run.steps)
        order.append(run.steps)
    return results, order


@pytest.mark.parametrize(
    ("losses", "order", "steps"),
    [
        ({2000: 1.09}, [2000], 2000),
        ({2000: 1.2, 3000: 1.0, 2200: 1.05}, [2000, 3000, 2200], 2200),
        ({2000: 1.2, 3000: 1.0, 2200: 1.15, 2500: 1.0}, [2000, 3000, 2200, 2500], 2500),
        ({2000: 1.2, 3000: 1.0, 2200: 1.15, 2500: 1.2}, [2000, 3000, 2200, 2500], 3000),
        ({2000: 1.2, 3000: 1.11}, [2000, 3000], None),
        ({2000: None, 3000: None}, [2000, 3000], None),  # it diverges
    ],
)
def test_time_to_equal_loss(losses, order, steps):
    results, trained = finish("topk", losses)
    assert trained == order
    for turn, seconds in ((1, 0.5), (2, 9.0), (3, 0.25)):
        run = Run(CIFAR, "topk", TIMED_STEPS, link="1gbit", round=turn)
        results[run] = result(None, seconds)
    found = outcome(CIFAR, "topk", "1gbit", results)
    assert found == (Outcome(True, steps, 0.5 * steps) if steps else Outcome(False))
    # The step on this link is not measured, but whether the method arrives is known.
    assert outcome(CIFAR, "topk", "100mbit", results) == replace(found, seconds=None)


def test_the_time_of_auto_is_that_of_its_training_on_the_link():
    results, _ = finish("auto", {2000: 1.2, 3000: 1.0, 2200: 1.0}, link="250mbit")
    assert outcome(CIFAR, "auto", "250mbit", results) == Outcome(True, 2200, pytest.approx(220))
    assert outcome(CIFAR, "auto", "1gbit", results) is None


def test_the_mean_of_the_seeds_decides_and_one_seed_of_all_reduce_is_no_target():
    results = all_reduce()
    run = Run(CIFAR, "sign", STEPS)
    assert arrives(run, results) is None
    results |= {replace(run, seed=s): result(x) for s, x in ((1, 1.25), (2, 1.0), (3, 1.0))}
    assert arrives(run, results)
    assert arrives(Run(CIFAR, "allreduce", STEPS), results)
    del results[Run(CIFAR, "allreduce", STEPS, 2)], results[Run(CIFAR, "allreduce", STEPS, 3)]
    assert arrives(run, results) is None


def test_every_run_has_its_own_name():
    runs = set(possible_runs())
    assert len({run.name for run in runs}) == len(runs)


def page(tmp_path: Path) -> Path:
    file = tmp_path / "accuracy.md"
    file.write_text("before\n<!-- study: generated from here --><!-- study: generated to here -->")
    return file


def section(text: str, heading: str) -> str:
    return re.split("###|<!--", text.split(f"### {heading}\n")[1])[0]


def test_the_report_fills_tables_cell_by_cell(tmp_path):
    file = page(tmp_path)
    results, _ = finish("topk", {2000: 1.2, 3000: 1.0, 2200: 1.05})
    results[Run(CIFAR, "topk", TIMED_STEPS, link="250mbit", round=1)] = result(None, seconds=0.5)
    results |= finish("half", {2000: None, 3000: None})[0]
    write_report(results, file)
    text = file.read_text()
    assert text.startswith("before\n")
    assert "| `allreduce` | 7.5x | 4x | 8x |  |  | 1.000 ± 0.100 | 50.0 ± 0.0 |  |  |" in text
    assert "| `topk` | 7.5x | 4x | 8x |  |  | +0.300 | +0.0 |  |  |" in text
    assert "| `half` | 7.5x | 4x | 8x |  |  | diverged | +0.0 |  |  |" in text
    times = section(text, "time to equal loss, cifar-cnn")
    assert "| `allreduce` | 2,000 | 4000 s, 1.00x | 4000 s, 1.00x | 4000 s, 1.00x |" in times
    assert "| `topk` | 2,200 |  | 1100 s, 3.64x |  |" in times
    assert "| `half` |  | not reached | not reached | not reached |" in times
    assert (tmp_path / "accuracy/time-cifar-cnn.png").stat().st_size > 10_000
    assert "](accuracy/time-cifar-cnn.png)" in times
    # A later report on other runs leaves these cells as they are.
    short = {Run(CIFAR, m, 500): result(x) for m, x in (("allreduce", 2.0), ("topk", 2.5))}
    write_report(short, file)
    text = file.read_text()
    assert "| 2.000 | 50.0 | 1.000 ± 0.100 | 50.0 ± 0.0 |  |  |" in text
    assert "| +0.500 | +0.0 | +0.300 | +0.0 |  |  |" in text
    assert section(text, "time to equal loss, cifar-cnn") == times


def test_the_report_says_that_there_was_no_cifar10(tmp_path):
    file = page(tmp_path)
    made = {"data": "cifar10:study/fashion-as-cifar10"}
    write_report({Run(CIFAR, "allreduce", 500): result(2.0) | made}, file)
    assert "this is Fashion-MNIST in its format" in file.read_text()


def test_the_study_keeps_what_it_has_and_writes_its_tables(tmp_path):
    def study() -> str:
        files = ("--folder", tmp_path, "--report", tmp_path / "accuracy.md")
        return run_bench("study", "--quick", *files, "--only", *RUNS, timeout=300).stdout

    file = page(tmp_path)
    study()
    for run in RUNS:
        assert math.isfinite(json.loads((tmp_path / f"{run}.json").read_text())["test_loss"])
    text = file.read_text()
    assert "| `adacomp` |" in section(text, "fashion-cnn")
    assert "| `acpsgd:rank=8,dtype=bf16` |" in section(text, "low rank, gpt")
    assert (tmp_path / "accuracy/rate-gpt.png").stat().st_size > 10_000
    assert "steps-seed" not in study()
    assert file.read_text() == text
