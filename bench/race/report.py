"""Makes tables and pictures from the JSON that the race writes. A report on some cells replaces the
sections of these cells and leaves the others as they are.

python -m bench.race.report race.json docs
"""

from __future__ import annotations

import argparse
import json
import math
import re
import statistics
from pathlib import Path
from typing import Any

import gradwire

from bench.race.cells import CELLS
from bench.race.contenders import PEERS

BEGIN, END = "<!-- race: generated from here -->", "<!-- race: generated to here -->"
# Bytes that tc counts for a full frame of a TCP stream, and bytes of payload in it.
FRAME, PAYLOAD = 1514, 1448
UNITS = {"mbit": 1e6, "gbit": 1e9}
# People with any kind of colour vision can tell these apart (Okabe and Ito).
PEER, COMPUTE, LIMIT, SPREAD = "#cccccc", "#444444", "#ff2d2d", "#777777"
PARTS = {
    "forward": "#56b4e9",
    "backward": "#0072b2",
    "encode": "#e69f00",
    "wait": "#d55e00",
    "decode": "#009e73",
    "optimizer": "#cc79a7",
    "communication": "#bbbbbb",
}
Figures = dict[str, Any]


def is_ours(name: str) -> bool:
    return name != "compute" and not name.startswith(PEERS)


def colour_of(name: str) -> str:
    """Returns the colour of a contender: that of its method if it is ours."""
    if is_ours(name):
        return gradwire.methods()[name.split("-")[0]]["colour"]
    return COMPUTE if name == "compute" else PEER


def payload_rate(rate: str) -> float:
    """Returns the bytes of TCP payload that a link carries per second."""
    match = re.fullmatch(r"([\d.]+)([mg]bit)", rate)
    if match is None:
        return math.inf
    return float(match[1]) * UNITS[match[2]] / 8 * PAYLOAD / FRAME


def summary(cell: Figures) -> dict[str, Figures]:
    """Returns the median step of each contender that finished a turn, and how it compares."""
    result: dict[str, Figures] = {}
    for name, turns in cell["turns"].items():
        seconds = [value for turn in turns for value in turn["seconds"]]
        if len(seconds) < 2:
            continue
        low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive")
        wire = statistics.fmean(turn["wire_bytes"] for turn in turns)
        result[name] = {
            **{"n": len(seconds), "median": middle, "quartiles": [low, high]},
            **{"wire_bytes": wire, "wire_seconds": wire / payload_rate(cell["rate"])},
            "breakdown": breakdown(turns, cell["stats"][name]),
        }
    for figures in result.values():
        for other, key in (("compute", "vs_compute"), ("ddp", "vs_ddp")):
            if other in result:
                figures[key] = figures["median"] / result[other]["median"]
        if "compute" in result:
            figures["limit"] = max(result["compute"]["median"], figures["wire_seconds"])
            # Without a hook nothing is encoded, and only the difference shows how long it waited.
            parts = figures["breakdown"]
            if "encode" not in parts:
                excess = parts["backward"] - result["compute"]["breakdown"]["backward"]
                parts["communication"] = max(0.0, excess)
                parts["backward"] -= max(0.0, excess)
    return result


def breakdown(turns: list[Figures], stats: list[Figures]) -> dict[str, float]:
    """Returns the seconds of each part of a step. backward() includes encode, wait and decode."""
    parts = {
        name: statistics.median(value for turn in turns for value in turn[name])
        for name in ("forward", "backward", "optimizer")
    }
    measured = {
        name: statistics.fmean(each[f"{name}_seconds"] for each in stats)
        for name in ("encode", "wait", "decode")
        if any(stats)
    }
    # Plain all-reduce has no hook, so it does not know how long it waits.
    if any(measured.values()):
        parts.update(measured)
        # Second rounds are encoded on another thread while backward waits, so this may be negative.
        parts["backward"] = max(0.0, parts["backward"] - sum(measured.values()))
    return parts


def table(cell: Figures) -> str:
    lines = [
        "| | median s | quartiles | steps | of compute | faster than DDP | MB sent | limit s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, figures in cell["summary"].items():
        low, high = figures["quartiles"]
        cells = [
            f"`{name}`" if is_ours(name) else name,
            f"{figures['median']:.3f}",
            f"{low:.3f} to {high:.3f}",
            str(figures["n"]),
            f"{figures['vs_compute']:.3f}" if "vs_compute" in figures else "",
            f"{1 / figures['vs_ddp']:.2f} times" if "vs_ddp" in figures else "",
            f"{figures['wire_bytes'] / 1e6:.1f}",
            f"{figures['limit']:.3f}" if "limit" in figures else "",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    errors = [f"\n{name} failed: {text}." for name, text in cell["errors"].items()]
    return "\n".join(lines + errors)


def breakdown_table(cell: Figures) -> str:
    lines = ["| | " + " | ".join(PARTS) + " |", "|---" * (len(PARTS) + 1) + "|"]
    for name, figures in cell["summary"].items():
        parts = figures["breakdown"]
        cells = [f"{parts[part]:.3f}" if part in parts else "" for part in PARTS]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw_medians(axes: Any, contenders: dict[str, Figures], names: list[str]) -> None:
    medians = [contenders[name]["median"] for name in names]
    colours = [colour_of(name) for name in names]
    spread = [
        [contenders[name]["median"] - contenders[name]["quartiles"][0] for name in names],
        [contenders[name]["quartiles"][1] - contenders[name]["median"] for name in names],
    ]
    axes.barh(names, medians, color=colours, xerr=spread, error_kw={"ecolor": SPREAD})
    for row, value in enumerate(medians):
        axes.annotate(
            f" {value:.3g}", (value + spread[1][row], row), va="center", fontsize=9, color="#333333"
        )
    if all("limit" in contenders[name] for name in names):
        limits = [contenders[name]["limit"] for name in names]
        axes.scatter(limits, names, marker="|", s=150, color=LIMIT, lw=2, zorder=4)
        axes.plot([], [], "|", ms=10, mew=2, color=LIMIT, label="limit: max(compute, wire)")
        # The legend is above the bars, since no place among them is free in every cell.
        axes.legend(loc="lower left", bbox_to_anchor=(0, 0.99), frameon=False, fontsize=9)
    axes.set_xlabel("seconds per step: median and quartiles")
    axes.set_xlim(0, max(medians) * 1.14)


def draw_parts(axes: Any, contenders: dict[str, Figures], names: list[str]) -> None:
    start = [0.0] * len(names)
    for part, colour in PARTS.items():
        widths = [contenders[name]["breakdown"].get(part, 0.0) for name in names]
        if any(widths):
            axes.barh(names, widths, left=start, color=colour, label=part)
        start = [begin + width for begin, width in zip(start, widths, strict=True)]
    axes.set_xlabel("seconds per step: where they go")
    # A slow contender would leave no room for the others, so its bar is cut off and labelled.
    fast = [total for name, total in zip(names, start, strict=True) if is_ours(name)]
    if fast and max(start) > 2.5 * max(fast):
        axes.set_xlim(0, 1.6 * max(fast))
        for row, total in enumerate(start):
            if total > 1.6 * max(fast):
                axes.annotate(
                    f"{total:.3g} s →",
                    (1.59 * max(fast), row),
                    ha="right",
                    va="center",
                    fontsize=9,
                    color="black",
                )


def picture(cell: Figures, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")  # no display needed
    import matplotlib.pyplot as plt

    contenders = cell["summary"]
    names = sorted(contenders, key=lambda name: contenders[name]["median"])
    height = 1.6 + 0.34 * len(names)
    figure, (left, right) = plt.subplots(1, 2, figsize=(13, height), sharey=True)
    draw_medians(left, contenders, names)
    draw_parts(right, contenders, names)
    for axes in (left, right):
        if "compute" in contenders:
            axes.axvline(contenders["compute"]["median"], color=COMPUTE, lw=1, ls="--", zorder=3)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(axis="y", length=0)
        axes.xaxis.grid(True, color="#dddddd")
        axes.set_axisbelow(True)
    figure.suptitle(cell["title"], x=0.01, ha="left", fontsize=12, fontweight="bold")
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.16 / height))
    style = {"ncols": len(PARTS), "frameon": False, "fontsize": 9, "handlelength": 1}
    figure.legend(*right.get_legend_handles_labels(), loc="upper right", **style)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def section(name: str, cell: Figures, machine: Figures, pictures: str) -> str:
    parts = [
        cell["title"],
        f"{cell['workers']} workers, rank {cell['rank']}, "
        f"{cell['parameters'] / 1e6:.1f} M parameters (`--cells {name}`). "
        f"Measured on {machine['date'][:10]}: {machine['cpu']}, {machine['cores']} cores, torch "
        f"{machine['torch']}, transformers {machine['transformers']}, gradwire "
        f"{machine['gradwire']}, {machine['system']}.",
        f"![{cell['title']}]({pictures}/{name}.png)",
        table(cell),
        "<details><summary>Where the seconds go</summary>",
        breakdown_table(cell),
        "</details>",
    ]
    return "\n\n".join(parts)


def write(everything: Figures, folder: Path) -> None:
    """Writes pictures to folder/performance and tables between the markers of performance.md."""
    pictures = folder / "performance"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, cell in everything["cells"].items():
        picture(cell, pictures / f"{name}.png")
    page = folder / "performance.md"
    text = page.read_text() if page.exists() else f"{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN)
    between, after = rest.split(END)
    sections = {each.split("\n")[0]: each.strip() for each in between.split("### ")[1:]}
    for name, cell in everything["cells"].items():
        sections[cell["title"]] = section(name, cell, everything["environment"], "performance")
    # Sections are in the order of the race. Those that it no longer has come last.
    order = [cell.title for cell in CELLS.values()]
    titles = sorted(sections, key=lambda each: order.index(each) if each in order else len(order))
    tables = "\n\n".join(f"### {sections[title]}" for title in titles)
    page.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "json", type=Path, nargs="+", help="files of one or several races; later ones win"
    )
    parser.add_argument("folder", type=Path)
    args = parser.parse_args()
    everything: Figures = {"cells": {}}
    for path in args.json:
        race = json.loads(path.read_text())
        everything["environment"] = race["environment"]
        everything["cells"].update(race["cells"])
    for cell in everything["cells"].values():
        cell["summary"] = summary(cell)
    write(everything, args.folder)


if __name__ == "__main__":
    main()
