"""Make a page with pictures of what ``gradwire compare`` has measured.

    python report.py RESULTS.json [RESULTS.json ...] FOLDER

The command runs this script for ``--report``. It needs matplotlib and nothing of gradwire. If the
files have different numbers of learners, one picture shows the accuracy that each number reached.
"""

from __future__ import annotations

import base64
import html
import json
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display needed
import matplotlib.pyplot as plt
from matplotlib.ticker import LogFormatter, NullLocator

# People with any kind of colour vision can tell these apart (Okabe and Ito).
PART_COLOURS = ("#e69f00", "#56b4e9", "#8c8c8c", "#000000", "#0072b2", "#d55e00", "#009e73")
MARKERS = "osD^vPX*"
LINES = ("-", "--", ":")
# The parts of a step in the order of time. The hook's work is a part of backward.
PARTS = {
    "load": "data and bookkeeping",
    "forward": "forward",
    "compute": "backward",
    "encode": "encode",
    "wait": "wait for the network",
    "decode": "decode",
    "optimizer": "optimizer",
}

EARLY_STEPS = 50  # `early_code_ratio_by_kind` is the rate of these

Result = dict[str, Any]  # what `gradwire train --json` writes for one method

COLUMNS = (
    "method",
    "test accuracy",
    "test loss",
    "s / step",
    "bytes / step / worker",
    "compression rate",
    "wire ratio",
)


def bytes_per_step(result: Result) -> float:
    return float(result["wire"]["sent_bytes"] / max(1, result["wire"]["steps"]))


def shown_loss(result: Result) -> str:
    loss = result["epochs"][-1]["test_loss"]
    return "not finite" if loss is None else f"{loss:.4f}"  # JSON has no infinity


def rows(results: list[Result]) -> Iterable[tuple[str, ...]]:
    for result in results:
        yield (
            result["name"],
            f"{100 * result['epochs'][-1]['test_accuracy']:.2f} %",
            shown_loss(result),
            f"{result['seconds_per_step']:.4f}",
            f"{bytes_per_step(result):,.0f}",
            f"{result['wire']['code_ratio']:.1f}x",
            f"{result['wire']['wire_ratio']:.1f}x",
        )


def line_styles(results: list[Result]) -> list[dict[str, Any]]:
    """Returns the style of each curve. Those of one method have its colour and differ otherwise."""
    colours = [result["colour"] for result in results]
    return [
        {
            "color": colour,
            "marker": MARKERS[index % len(MARKERS)],
            "linestyle": LINES[colours[:index].count(colour) % len(LINES)],
        }
        for index, colour in enumerate(colours)
    ]


def save(figure: Any, file: Path) -> None:
    # The legend is beside the axes, where it hides no curve.
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def curves(
    results: list[Result],
    file: Path,
    labels: tuple[str, str],
    scales: tuple[str, str],
    points: Callable[[Result], tuple[list[float], list[float]]],
) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for result, style in zip(results, line_styles(results), strict=True):
        axes.plot(*points(result), **style, label=result["name"])
    axes.set(xlabel=labels[0], ylabel=labels[1], xscale=scales[0], yscale=scales[1])
    for axis, scale in ((axes.xaxis, scales[0]), (axes.yaxis, scales[1])):
        if scale == "log":
            axis.set_major_formatter("{x:g}")  # 100 instead of 10 to the power of 2
            axis.set_minor_formatter(LogFormatter(minor_thresholds=(2, 0.4)))
    if scales[0] == "linear":
        axes.set_xlim(left=0)
    axes.grid(alpha=0.3)
    save(figure, file)


def accuracies(result: Result) -> list[float]:
    return [100 * epoch["test_accuracy"] for epoch in result["epochs"]]


def accuracy_over_time(result: Result) -> tuple[list[float], list[float]]:
    total, so_far = 0.0, []
    for epoch in result["epochs"]:
        total += epoch["seconds"]
        so_far.append(total)
    return so_far, accuracies(result)


def accuracy_over_bytes(result: Result) -> tuple[list[float], list[float]]:
    return [epoch["sent_bytes"] / 1e6 for epoch in result["epochs"]], accuracies(result)


def rate_over_steps(kind: str) -> Callable[[Result], tuple[list[float], list[float]]]:
    """Returns the rates of the first steps, when residuals are small, and then of each epoch."""

    def points(result: Result) -> tuple[list[float], list[float]]:
        shown = [(e["step"], e["code_ratio_by_kind"][kind]) for e in result["epochs"]]
        if shown[0][0] > EARLY_STEPS:
            shown.insert(0, (EARLY_STEPS, result["early_code_ratio_by_kind"][kind]))
        return [steps for steps, _ in shown], [rate for _, rate in shown]

    return points


def accuracy_by_learners(results: list[Result], file: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    numbers = sorted({result["workers"] for result in results})
    by_variant = {result["variant"]: result for result in results}
    styles = line_styles(list(by_variant.values()))
    for method, style in zip(by_variant, styles, strict=True):
        reached = sorted(
            (result["workers"], accuracies(result)[-1])
            for result in results
            if result["variant"] == method
        )
        axes.plot(*zip(*reached, strict=True), **style, label=method)
    axes.set(xlabel="learners", ylabel="test accuracy (%)", xscale="log")
    axes.set_xticks(numbers, [str(number) for number in numbers])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.grid(alpha=0.3)
    save(figure, file)


def milliseconds_by_part(result: Result) -> dict[str, float]:
    """Returns means over all steps. Backward is without the hook's work."""
    sums = dict.fromkeys(PARTS, 0.0)
    for epoch in result["epochs"]:
        parts = epoch["seconds_by_part"]
        hook = parts["encode"] + parts["wait"] + parts["decode"]
        sums["compute"] += max(0.0, parts["backward"] - hook)
        for part in sums:
            sums[part] += parts.get(part, 0.0)
    steps = max(1, result["steps"])
    return {part: 1000 * seconds / steps for part, seconds in sums.items()}


def breakdown(results: list[Result], file: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 1.6 + 0.5 * len(results)), layout="constrained")
    names = [result["name"] for result in results]
    lefts = [0.0] * len(results)
    for (part, label), colour in zip(PARTS.items(), PART_COLOURS, strict=True):
        widths = [milliseconds_by_part(result)[part] for result in results]
        axes.barh(names, widths, left=lefts, label=label, color=colour)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    axes.set_xlabel("milliseconds per step")
    axes.invert_yaxis()  # the first method is on top, as in the table
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    save(figure, file)


def pictures(results: list[Result], folder: Path) -> Iterable[tuple[str, Path]]:
    accuracy = "test accuracy (%)"
    file = folder / "accuracy_time.png"
    curves(results, file, ("training time (s)", accuracy), ("linear", "linear"), accuracy_over_time)
    yield "Accuracy over time", file
    file = folder / "accuracy_bytes.png"
    label = "sent by one worker so far (MB, logarithmic)"
    curves(results, file, (label, accuracy), ("log", "linear"), accuracy_over_bytes)
    yield "Accuracy over bytes sent", file
    for kind, layers in (("conv", "convolutions"), ("dense", "dense and recurrent layers")):
        if any(rate_over_steps(kind)(result)[1][-1] != 1.0 for result in results):
            file = folder / f"rate_{kind}.png"
            labels = ("training step (logarithmic)", "compression rate (logarithmic)")
            curves(results, file, labels, ("log", "log"), rate_over_steps(kind))
            yield f"Compression rate of {layers}", file
    if len({result["workers"] for result in results}) > 1:
        file = folder / "accuracy_learners.png"
        accuracy_by_learners(results, file)
        yield "Accuracy by the number of learners", file
    file = folder / "step_time.png"
    breakdown(results, file)
    yield "Where a step's time goes", file


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>gradwire: {title}</title><style>
body {{ font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 0.35em 0.9em; text-align: right; border-bottom: 1px solid #ccc; }}
th:first-child, td:first-child {{ text-align: left; }}
img {{ max-width: 100%; }}
</style></head><body>
<h1>{title} with compressed gradients</h1>
<p>{setting}</p>
{table}
<p>The compression rate is the size of a worker's gradient divided by the size of its code. The
wire ratio is what plain all-reduce sends, divided by what the method sends. Times exclude the
evaluation. If all workers share one machine, there is no slow network, and the times show the cost
of computing only. Plain all-reduce waits for the network during backward, where it cannot be
measured.</p>
{pictures}
</body></html>
"""


def html_table(results: list[Result]) -> str:
    def line(tag: str, cells: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "\n".join(line("td", row) for row in rows(results))
    return f"<table>\n{line('th', COLUMNS)}\n{body}\n</table>"


def write_report(results: list[Result], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shown = "\n".join(
        f'<h2>{title}</h2>\n<img alt="{title}" src="data:image/png;base64,'
        f'{base64.b64encode(file.read_bytes()).decode()}">'
        for title, file in pictures(results, folder)
    )
    first = results[0]
    workers = ", ".join(sorted({str(result["workers"]) for result in results}, key=int))
    batches = ", ".join(sorted({str(result["batch"]) for result in results}, key=int))
    setting = (
        f"{first['model']} on {first['data']}, {workers} workers, "
        f"{len(first['epochs'])} epochs, {first['steps']} steps of {batches} samples per "
        f"worker, {first['optimizer']} with learning rate {first['lr']}, seed {first['seed']}."
    )
    page = PAGE.format(
        title=html.escape(first["data"]),
        setting=html.escape(setting),
        table=html_table(results),
        pictures=shown,
    )
    (folder / "index.html").write_text(page, encoding="utf-8")


def read(files: list[str]) -> list[Result]:
    results = [result for file in files for result in json.loads(Path(file).read_text())["results"]]
    differ = len({result["workers"] for result in results}) > 1
    for result in results:
        result["variant"] = result["name"]
        if differ:
            result["name"] += f", {result['workers']} learners"
    return results


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *files, folder = sys.argv[1:]
    write_report(read(files), Path(folder))


if __name__ == "__main__":
    main()
