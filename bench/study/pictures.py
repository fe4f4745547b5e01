"""Draws the pictures of docs/accuracy.md."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import gradwire
from gradwire.report import curves

from bench.study.equal_loss import Results, final_loss, first_attempt, step_seconds
from bench.study.rows import (
    ACPSGD,
    DTYPES,
    LINKS,
    POWERSGD,
    PUBLISHED_LOW_RANK,
    RANKS,
    SWEPT,
    Run,
    Task,
)

PICTURED_LINK = "250mbit"
PICTURED = (
    "allreduce",
    "half",
    "quant:bits=4",
    "sign:block=64",
    "topk",
    "adacomp",
    POWERSGD,
    ACPSGD,
    f"acpsgd:{PUBLISHED_LOW_RANK}",
    "auto",
)
POINTS = 20  # of a curve over time


def curve(name: str, method: str, points: list[tuple[float, float]]) -> dict[str, Any]:
    colour = gradwire.methods()[method.split(":")[0]]["colour"]
    return {"name": name, "colour": colour, "points": points}


def draw(shown: list[dict[str, Any]], file: Path, labels: tuple[str, str], x_scale: str) -> None:
    file.parent.mkdir(exist_ok=True)

    def points(each: dict[str, Any]) -> tuple[list[float], list[float]]:
        return [x for x, _ in each["points"]], [y for _, y in each["points"]]

    curves(shown, file, labels, (x_scale, "linear"), points)


def over_time(task: Task, method: str, results: Results) -> list[tuple[float, float]]:
    """Returns the training loss in parts of the training, at the time of the end of each part."""
    run = first_attempt(task, method, PICTURED_LINK)
    step = step_seconds(task, method, PICTURED_LINK, results)
    if run not in results or (step is None and not run.link):
        return []
    losses = results[run]["losses"]
    size = -(-len(losses) // POINTS)
    parts = [losses[i : i + size] for i in range(0, len(losses), size)]

    def seconds(end: dict[str, Any]) -> float:
        return end["seconds"] if step is None else step * end["step"]

    return [(seconds(part[-1]), statistics.mean(each["loss"] for each in part)) for part in parts]


def draw_over_time(task: Task, results: Results, file: Path) -> bool:
    found = [curve(m, m, points) for m in PICTURED if (points := over_time(task, m, results))]
    if found:
        labels = (f"training time at {LINKS[PICTURED_LINK]} (s)", "training loss")
        draw(found, file, labels, "linear")
    return bool(found)


def draw_over_rate(task: Task, results: Results, file: Path) -> bool:
    found = []
    for method in ("powersgd", "acpsgd"):
        for dtype in DTYPES:
            # The lowest rank, which compresses most, ends a curve at its right, beside its name.
            methods = [f"{method}:rank={rank},dtype={dtype}" for rank in reversed(RANKS)]
            runs = [Run(task, each, SWEPT) for each in methods]
            points = [
                (results[run]["wire"]["code_ratio"], final_loss(results[run]))
                for run in runs
                if run in results
            ]
            if points:
                found.append(curve(f"{method} {dtype}", method, points))
    if found:
        draw(found, file, ("compression rate (logarithmic)", "test loss"), "log")
    return bool(found)
