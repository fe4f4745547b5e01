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
LINES = ("-", "--", ":", "-.")
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
# What `gradwire compare --json` writes besides the results, if there is only one such file.
About = dict[str, Any]

LOSS_CLASSES = {
    "exact": "all of the gradient arrives",
    "rounded": "all of it arrives in its own step, rounded",
    "delayed": "a part of it arrives in later steps",
}


def bytes_per_step(result: Result) -> float:
    return float(result["wire"]["sent_bytes"] / max(1, result["wire"]["steps"]))


def shown_loss(result: Result) -> str:
    loss = result["epochs"][-1]["test_loss"]
    return "not finite" if loss is None else f"{loss:.4f}"  # JSON has no infinity


def shown_time(result: Result) -> str:
    seconds = result["seconds_to_target"]
    return "not reached" if seconds is None else f"{seconds:.1f} s"


def columns(about: About) -> dict[str, Callable[[Result], str]]:
    """Returns what each column of the table says of a result."""
    judged = (
        {f"time to {100 * about['target_accuracy']:.2f}\u00a0%": shown_time}
        if "target_accuracy" in about
        else {"test loss": shown_loss}
    )
    return {
        "method": lambda result: str(result["name"]),
        "class of loss": lambda result: str(result["wire"]["loss_class"]),
        "test accuracy": lambda result: f"{accuracies(result)[-1]:.2f} %",
        **judged,
        "s / step": lambda result: f"{result['seconds_per_step']:.4f}",
        "bytes / step / worker": lambda result: f"{bytes_per_step(result):,.0f}",
        "compression rate": lambda result: f"{result['wire']['code_ratio']:.1f}x",
        "wire ratio": lambda result: f"{result['wire']['wire_ratio']:.1f}x",
    }


def line_styles(results: list[Result]) -> list[dict[str, Any]]:
    """Returns the style of each curve. Those of one method have its colour and differ otherwise."""
    colours = [result["colour"] for result in results]
    return [
        {
            "color": colour,
            "marker": MARKERS[index % len(MARKERS)],
            "markersize": 4,
            "linestyle": LINES[colours[:index].count(colour) % len(LINES)],
        }
        for index, colour in enumerate(colours)
    ]


def label_ends(axes: Any) -> None:
    """Writes each curve's name beside its end, and moves names apart that would overlap."""
    axes.figure.draw_without_rendering()  # decides how high the axes are
    to_axes = axes.transData + axes.transAxes.inverted()
    size = 9.0
    gap = 1.3 * size / (72 * axes.bbox.height / axes.figure.dpi)
    lines = [line for line in axes.get_lines() if not line.get_label().startswith("_")]
    ends = {line: to_axes.transform((line.get_xdata()[-1], line.get_ydata()[-1])) for line in lines}
    lines.sort(key=lambda line: float(ends[line][1]))
    heights: list[float] = []
    for line in lines:
        lowest = heights[-1] + gap if heights else 0.0
        heights.append(max(lowest, float(ends[line][1])))
    highest = 1.0
    for index in reversed(range(len(heights))):  # those pushed out at the top go down again
        heights[index] = min(heights[index], highest)
        highest = heights[index] - gap
    for line, height in zip(lines, heights, strict=True):
        axes.annotate(
            line.get_label(),
            xy=ends[line],
            xytext=(1.03, height),
            xycoords="axes fraction",
            color=line.get_color(),
            fontsize=size,
            va="center",
            annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": line.get_color(), "lw": 0.6, "alpha": 0.6},
        )


def save(figure: Any, file: Path) -> None:
    figure.savefig(file, dpi=130)
    plt.close(figure)


def curves(
    results: list[Result],
    file: Path,
    labels: tuple[str, str],
    scales: tuple[str, str],
    points: Callable[[Result], tuple[list[float], list[float]]],
    target: float | None = None,
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
    if target is not None:
        axes.axhline(target, color="black", linestyle=":", linewidth=1)
        note = f"dotted: where all-reduce ends ({target:.1f} %)"
        axes.text(0.98, 0.03, note, transform=axes.transAxes, ha="right", fontsize=9)
    axes.grid(alpha=0.3)
    label_ends(axes)
    save(figure, file)


def accuracies(result: Result) -> list[float]:
    return [100 * epoch["test_accuracy"] for epoch in result["epochs"]]


def accuracy_over_time(result: Result) -> tuple[list[float], list[float]]:
    return [epoch["elapsed_seconds"] for epoch in result["epochs"]], accuracies(result)


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
    label_ends(axes)
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


def breakdown(results: list[Result], file: Path, compute_seconds: float | None) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 1.6 + 0.5 * len(results)), layout="constrained")
    names = [result["name"] for result in results]
    lefts = [0.0] * len(results)
    for (part, label), colour in zip(PARTS.items(), PART_COLOURS, strict=True):
        widths = [milliseconds_by_part(result)[part] for result in results]
        axes.barh(names, widths, left=lefts, label=label, color=colour)
        lefts = [left + width for left, width in zip(lefts, widths, strict=True)]
    if compute_seconds is not None:
        axes.axvline(1000 * compute_seconds, color="black", linestyle=":", linewidth=1)
        axes.annotate(
            " computing alone",
            xy=(1000 * compute_seconds, 1.0),
            xycoords=("data", "axes fraction"),
            xytext=(0, 3),
            textcoords="offset points",
            fontsize=8,
        )
    axes.set_xlabel("milliseconds per step")
    axes.invert_yaxis()  # the first method is on top, as in the table
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    # It is beside the axes, where it hides no bar.
    figure.legend(loc="outside right upper", frameon=False)
    save(figure, file)


def pictures(results: list[Result], about: About, folder: Path) -> Iterable[tuple[str, Path]]:
    accuracy = "test accuracy (%)"
    file = folder / "accuracy_time.png"
    labels = ("training time (s)", accuracy)
    target = 100 * about["target_accuracy"] if "target_accuracy" in about else None
    curves(results, file, labels, ("linear", "linear"), accuracy_over_time, target)
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
    breakdown(results, file, about.get("compute_seconds_per_step"))
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
{notes}
<p>Classes of loss: {classes}. The compression rate is the size of a worker's gradient divided by
the size of its code. The wire ratio is what plain all-reduce sends, divided by what the method
sends. Times exclude the evaluation. {network} Plain all-reduce waits for the network during
backward, where it cannot be measured.</p>
{pictures}
</body></html>
"""


def html_table(results: list[Result], about: About) -> str:
    def line(tag: str, cells: Iterable[str]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    shown = columns(about)
    body = "\n".join(line("td", (text(result) for text in shown.values())) for result in results)
    return f"<table>\n{line('th', shown)}\n{body}\n</table>"


def describe(results: list[Result], about: About) -> str:
    first = results[0]
    workers = ", ".join(sorted({str(result["workers"]) for result in results}, key=int))
    batches = ", ".join(sorted({str(result["batch"]) for result in results}, key=int))
    begin = about.get(
        "setting",
        f"{first['model']} on {first['data']}, {workers} workers, {len(first['epochs'])} epochs, "
        f"{first['steps']} steps.",
    )
    rate = f"{'a constant ' if 'seconds' in first else ''}learning rate {first['lr']}"
    return (
        f"{begin} Every step takes {batches} samples per worker; {first['optimizer']} with {rate}, "
        f"seed {first['seed']}."
    )


def describe_network(results: list[Result]) -> str:
    if all(result["link"] for result in results):
        return "The links are emulated; all workers share the cores of one machine."
    return (
        "If all workers share one machine, there is no slow network, and the times show the cost "
        "of computing only."
    )


def write_report(results: list[Result], about: About, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    shown = "\n".join(
        f'<h2>{title}</h2>\n<img alt="{title}" src="data:image/png;base64,'
        f'{base64.b64encode(file.read_bytes()).decode()}">'
        for title, file in pictures(results, about, folder)
    )
    used = {result["wire"]["loss_class"] for result in results}
    page = PAGE.format(
        title=html.escape(results[0]["data"]),
        setting=html.escape(describe(results, about)),
        table=html_table(results, about),
        notes="\n".join(f"<p>{html.escape(note)}</p>" for note in about.get("notes", [])),
        classes="; ".join(f"{name}: {what}" for name, what in LOSS_CLASSES.items() if name in used),
        network=describe_network(results),
        pictures=shown,
    )
    (folder / "index.html").write_text(page, encoding="utf-8")


def read(files: list[str]) -> tuple[list[Result], About]:
    comparisons = [json.loads(Path(file).read_text()) for file in files]
    results = [result for comparison in comparisons for result in comparison.pop("results")]
    differ = len({result["workers"] for result in results}) > 1
    for result in results:
        result["variant"] = result["name"]
        if differ:
            result["name"] += f", {result['workers']} learners"
    return results, comparisons[0] if len(files) == 1 else {}


def main() -> None:
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    *files, folder = sys.argv[1:]
    write_report(*read(files), Path(folder))


if __name__ == "__main__":
    main()
