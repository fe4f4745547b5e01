"""Writes the tables of docs/accuracy.md. A report on some runs replaces the rows of these runs and
leaves the others as they are."""

from __future__ import annotations

import re
import statistics
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import gradwire
from gradwire.report import accuracy_by_learners

from bench.study.rows import Run, runs

BEGIN = "<!-- study: generated from here -->"
END = "<!-- study: generated to here -->"

Results = dict[Run, dict[str, Any]]
Tables = dict[str, dict[str, str]]  # rows by heading and title


def last(result: dict[str, Any], key: str) -> float:
    return result["epochs"][-1][key]


def spread(values: list[float], digits: int) -> str:
    mean = f"{statistics.mean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def rates(results: list[dict[str, Any]]) -> list[str]:
    """Returns the compression rates of the last epoch, when training has settled."""
    by_kind = [last(result, "code_ratio_by_kind") for result in results]
    return [
        f"{statistics.mean(kinds[kind] for kinds in by_kind):.0f}x" for kind in ("conv", "dense")
    ]


def differences(seeds: list[Run], results: Results, key: str) -> list[float]:
    """Returns the difference of each run from the same run without compression."""
    plain = {run.name: result for run, result in results.items() if run.method == "allreduce"}
    return [
        last(results[run], key) - last(plain[name], key)
        for run in seeds
        if (name := run.uncompressed.name) in plain
    ]


def figures(seeds: list[Run], results: Results, key: str, unit: float, digits: int) -> list[str]:
    """Returns what the runs reached, and the difference from what allreduce reached."""
    reached = [last(results[run], key) for run in seeds]
    compared = differences(seeds, results, key)
    return [
        spread([unit * value for value in values], digits) if values else ""
        for values in (reached, compared)
    ]


def heading(run: Run) -> str:
    return f"{run.task.name}, {run.optimizer}" if run.part == "methods" else run.part


def title(run: Run) -> str:
    if run.part == "methods":
        return f"`{run.method}`"
    return f"`{run.method}`, {run.learners} learners, batch {run.samples_per_step}"


def row(seeds: list[Run], results: Results) -> str:
    cells = [
        title(seeds[0]),
        str(len(seeds)),
        *figures(seeds, results, "test_accuracy", unit=100, digits=2),
        *figures(seeds, results, "test_loss", unit=1, digits=3),
        *rates([results[run] for run in seeds]),
    ]
    return line(cells)


HEADER = ["", "seeds", "accuracy %", "against allreduce", "test loss", "against allreduce"]
HEADER += ["conv", "dense"]


def measured(results: Results) -> Tables:
    by_row: dict[tuple[str, str], list[Run]] = defaultdict(list)
    for run in results:
        by_row[heading(run), title(run)].append(run)
    tables: Tables = defaultdict(dict)
    for (section, name), seeds in by_row.items():
        tables[section][name] = row(seeds, results)
    return tables


def written(text: str) -> Tables:
    """Reads the tables of an earlier report."""
    tables: Tables = {}
    for section in text.split("### ")[1:]:
        name, *lines = section.strip().splitlines()
        rows = [each for each in lines if each.startswith("| `")]
        tables[name] = {each.split(" | ")[0].removeprefix("| "): each for each in rows}
    return tables


def draw_learners(rows: Iterable[str], file: Path) -> None:
    """Draws the accuracy over the number of learners, from the rows of their table."""
    cell = re.compile(r"\| `(.+)`, (\d+) learners, batch \d+ \| \d+ \| ([\d.]+)")
    found = [match.groups() for row in rows if (match := cell.match(row))]
    results = [
        {
            "variant": method,
            "colour": gradwire.methods()[method.split(":")[0]]["colour"],
            "workers": int(learners),
            "epochs": [{"test_accuracy": float(a) / 100}],
        }
        for method, learners, a in found
    ]
    file.parent.mkdir(exist_ok=True)
    accuracy_by_learners(results, file)


def table(section: str, old: Tables, new: Tables) -> str:
    """Rows are in the order of the study. Rows of runs that it no longer has come last."""
    rows = {**old.get(section, {}), **new.get(section, {})}
    names = dict.fromkeys([*(title(run) for run in runs() if heading(run) == section), *rows])
    lines = [line(HEADER), "|" + "---|" * len(HEADER)]
    lines += [rows[name] for name in names if name in rows]
    return f"### {section}\n\n" + "\n".join(lines)


def write_report(results: Results, file: Path) -> None:
    before, rest = file.read_text().split(BEGIN)
    between, after = rest.split(END)
    old, new = written(between), measured(results)
    sections = dict.fromkeys(heading(run) for run in runs())
    tables = {
        section: table(section, old, new)
        for section in sections
        if section in old or section in new
    }
    if "learners" in tables:
        picture = Path(file.stem) / "learners.png"
        draw_learners(tables["learners"].splitlines(), file.parent / picture)
        tables["learners"] += f"\n\n![Accuracy by the number of learners]({picture})"
    text = "\n\n".join(tables.values())
    file.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
