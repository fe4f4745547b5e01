"""The tables of docs/accuracy.md."""

from __future__ import annotations

import statistics
from collections import defaultdict
from pathlib import Path
from typing import Any

from bench.study.rows import Run

BEGIN = "<!-- study: generated from here -->"
END = "<!-- study: generated to here -->"

Results = dict[Run, dict[str, Any]]


def last(result: dict[str, Any], key: str) -> float:
    return result["epochs"][-1][key]


def spread(values: list[float], digits: int) -> str:
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def table(header: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def rates(results: list[dict[str, Any]]) -> list[str]:
    """Of the last epoch, where training has settled."""
    by_kind = [last(result, "code_ratio_by_kind") for result in results]
    return [
        f"{statistics.mean(kinds[kind] for kinds in by_kind):.0f}x" for kind in ("conv", "dense")
    ]


def differences(runs: list[Run], results: Results, key: str) -> list[float]:
    """Against the same run without compression, seed by seed."""
    plain = {run.name: result for run, result in results.items() if run.method == "allreduce"}
    return [
        last(results[run], key) - last(plain[name], key)
        for run in runs
        if (name := run.uncompressed.name) in plain
    ]


def figures(runs: list[Run], results: Results, key: str, unit: float, digits: int) -> list[str]:
    """What they reached, and how far that is from what allreduce did."""
    reached = [last(results[run], key) for run in runs]
    compared = differences(runs, results, key)
    return [
        spread([unit * value for value in values], digits) if values else ""
        for values in (reached, compared)
    ]


def row(title: str, runs: list[Run], results: Results) -> list[str]:
    return [
        title,
        str(len(runs)),
        *figures(runs, results, "test_accuracy", unit=100, digits=2),
        *figures(runs, results, "test_loss", unit=1, digits=3),
        *rates([results[run] for run in runs]),
    ]


HEADER = ["", "seeds", "accuracy %", "against allreduce", "test loss", "against allreduce"]
HEADER += ["conv", "dense"]


def methods_tables(results: Results) -> list[str]:
    grouped: dict[tuple[str, str], dict[str, list[Run]]] = defaultdict(lambda: defaultdict(list))
    for run in results:
        if run.part == "methods":
            grouped[run.task.name, run.optimizer][run.method].append(run)
    texts = []
    for (task, optimizer), methods in grouped.items():
        rows = [row(f"`{name}`", runs, results) for name, runs in methods.items()]
        texts.append(f"### {task}, {optimizer}\n\n{table(HEADER, rows)}")
    return texts


def sweep_tables(results: Results) -> list[str]:
    parts: dict[str, list[Run]] = defaultdict(list)
    for run in results:
        if run.part != "methods":
            parts[run.part].append(run)
    texts = []
    for part, runs in parts.items():
        rows = []
        for run in runs:
            crowd = f"{run.learners} learners" if run.learners else f"{run.workers} workers"
            title = f"`{run.method}`, {crowd}, batch {run.samples_per_step}"
            rows.append(row(title, [run], results))
        texts.append(f"### {part}\n\n{table(HEADER, rows)}")
    return texts


def write_report(results: Results, file: Path) -> None:
    text = file.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    tables = "\n\n".join(methods_tables(results) + sweep_tables(results))
    file.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")
