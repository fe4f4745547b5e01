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


def row(title: str, results: list[dict[str, Any]], plain: list[dict[str, Any]]) -> list[str]:
    accuracy = [100 * last(result, "test_accuracy") for result in results]
    loss = [last(result, "test_loss") for result in results]
    reference = [100 * last(result, "test_accuracy") for result in plain]
    difference = statistics.mean(accuracy) - statistics.mean(reference) if reference else 0.0
    return [
        title, str(len(results)), spread(accuracy, 2), f"{difference:+.2f}", spread(loss, 4),
        *rates(results),
    ]  # fmt: skip


HEADER = ["", "seeds", "test accuracy %", "against allreduce", "test loss", "conv", "dense"]


def methods_tables(results: Results) -> list[str]:
    grouped: dict[tuple[str, str], dict[str, list]] = defaultdict(lambda: defaultdict(list))
    for run, result in results.items():
        if run.part == "methods":
            grouped[run.task.name, run.optimizer][run.method].append(result)
    texts = []
    for (task, optimizer), methods in grouped.items():
        rows = [
            row(f"`{name}`", found, methods["allreduce"])
            for name, found in methods.items()
            if found
        ]
        texts.append(f"### {task}, {optimizer}\n\n{table(HEADER, rows)}")
    return texts


def other_tables(results: Results) -> list[str]:
    parts: dict[str, list[tuple[Run, dict]]] = defaultdict(list)
    for run, result in results.items():
        if run.part != "methods":
            parts[run.part].append((run, result))
    texts = []
    for part, found in parts.items():
        rows = []
        for run, result in found:
            crowd = f"{run.learners} learners" if run.learners else f"{run.workers} workers"
            plain = [
                other for run_of, other in found
                if run_of.method == "allreduce" and run_of.learners == run.learners
                and run_of.batch == run.batch
            ]  # fmt: skip
            title = f"`{run.method}`, {crowd}, batch {run.batch or run.task.batch}"
            rows.append(row(title, [result], plain))
        texts.append(f"### {part}\n\n{table(HEADER, rows)}")
    return texts


def write_report(results: Results, file: Path) -> None:
    text = file.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    tables = "\n\n".join(methods_tables(results) + other_tables(results))
    file.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")
