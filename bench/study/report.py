"""Writes the tables of docs/accuracy.md. A report on some runs replaces the cells of these runs and
leaves the others as they are."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from pathlib import Path

from bench.study.data import STAND_IN
from bench.study.equal_loss import Outcome, Results, final_loss, outcome
from bench.study.pictures import PICTURED_LINK, draw_over_rate, draw_over_time
from bench.study.rows import AUTO, LENGTHS, LINKS, LONG, SEEDS, TASKS, TIMED, Run, Task, sweeps

BEGIN = "<!-- study: generated from here -->"
END = "<!-- study: generated to here -->"

Rows = dict[str, list[str]]  # cells by the first cell of their row


def of_seeds(run: Run, results: Results) -> list[Run]:
    seeds = [Run(run.task, run.method, run.steps, seed) for seed in SEEDS]
    return [each for each in seeds if each in results]


def spread(values: list[float], digits: int, sign: str = "") -> str:
    if not values:
        return ""
    if not all(map(math.isfinite, values)):
        return "diverged"
    mean = f"{statistics.mean(values):{sign}.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def figures(run: Run, results: Results) -> list[str]:
    """Returns loss and accuracy: of allreduce as they are, of others the differences from those of
    allreduce with the same seeds."""

    def of(each: Run) -> tuple[float, float]:
        return final_loss(results[each]), 100 * results[each]["epochs"][-1]["test_accuracy"]

    reached = of_seeds(run, results)
    if run.method == "allreduce":
        values = [of(each) for each in reached]
        sign = ""
    else:
        plain = {each.seed: of(each) for each in of_seeds(uncompressed(run), results)}
        both = [(of(each), plain[each.seed]) for each in reached if each.seed in plain]
        values = [(loss - l0, accuracy - a0) for (loss, accuracy), (l0, a0) in both]
        sign = "+"
    losses, accuracies = ([pair[i] for pair in values] for i in (0, 1))
    return [spread(losses, 3, sign), spread(accuracies, 1, sign)]


def uncompressed(run: Run) -> Run:
    return Run(run.task, "allreduce", run.steps, run.seed)


def rates(runs: Iterable[Run], kinds: tuple[str, ...], results: Results) -> list[str]:
    """Returns the compression rates of the longest run, of all bytes and at the end by kind."""
    known = [run for run in runs if run in results]
    if not known:
        return [""] * (1 + len(kinds))
    result = results[max(known, key=lambda run: run.steps)]
    by_kind = result["epochs"][-1]["code_ratio_by_kind"]
    return [f"{rate:.3g}x" for rate in (result["wire"]["code_ratio"], *map(by_kind.get, kinds))]


def titled(method: str) -> str:
    return f"`{method}`"


def lengths_table(task: Task, results: Results) -> tuple[list[str], Rows]:
    lengths = (*LENGTHS, LONG) if task in TIMED else LENGTHS
    header = ["method", "rate", *task.kinds]
    header += [f"{what}, {steps:,} steps" for steps in lengths for what in ("loss", "%")]
    rows = {}
    for method in task.methods:
        runs = [Run(task, method, steps) for steps in lengths]
        cells = rates(runs, task.kinds, results)
        cells += [cell for run in runs for cell in figures(run, results)]
        rows[titled(method)] = cells
    return header, rows


def sweep_table(runs: list[Run], results: Results) -> tuple[list[str], Rows]:
    header = ["method", "rate", "loss", "%"]
    plain = uncompressed(runs[0])
    return header, {
        titled(run.method): [*rates([run], (), results), *first_seed(run, results)]
        for run in dict.fromkeys([plain, *runs])
    }


def first_seed(run: Run, results: Results) -> list[str]:
    """Returns the figures of one seed, because a sweep compares runs that have no other."""
    ones = {each: results[each] for each in (run, uncompressed(run)) if each in results}
    return figures(run, ones)


def shown(found: Outcome | None, plain: Outcome | None) -> str:
    if found is None:
        return ""
    if not found.reached:
        return "not reached"
    if found.seconds is None:
        return ""
    if plain is None or plain.seconds is None:
        return f"{found.seconds:.0f} s"
    return f"{found.seconds:.0f} s, {plain.seconds / found.seconds:.2f}x"


def times_table(task: Task, results: Results) -> tuple[list[str], Rows]:
    header = ["method", "steps", *LINKS.values()]
    rows = {}
    for method in (*task.methods, *AUTO):
        found = [outcome(task, method, link, results) for link in LINKS]
        plain = [outcome(task, "allreduce", link, results) for link in LINKS]
        steps = dict.fromkeys(f"{each.steps:,}" for each in found if each and each.reached)
        times = [shown(*pair) for pair in zip(found, plain, strict=True)]
        rows[titled(method)] = [", ".join(steps), *times]
    return header, rows


def line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def cells_of(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def written(section: str) -> tuple[list[str], Rows]:
    """Reads the table of an earlier report."""
    lines = [cells_of(each) for each in section.splitlines() if each.startswith("|")]
    if not lines:
        return [], {}
    return lines[0], {first: rest for first, *rest in lines[2:]}


def merged(new: list[str], old: list[str]) -> list[str]:
    return [cell or before for cell, before in zip(new, old, strict=True)]


def section(heading: str, header: list[str], rows: Rows, old: str) -> str:
    """Returns nothing if all cells are empty. Rows that the study no longer has are left out."""
    old_header, old_rows = written(old)
    if old_header == header:
        rows = {name: merged(cells, old_rows.get(name, cells)) for name, cells in rows.items()}
    lines = [line([name, *cells]) for name, cells in rows.items() if any(cells)]
    if not lines:
        return ""
    return "\n".join([f"### {heading}", "", line(header), "|" + "---|" * len(header), *lines])


def note(task: Task, results: Results) -> str:
    if any(run.task == task and STAND_IN in results[run]["data"] for run in results):
        return "\n\nNo CIFAR-10 was given: this is Fashion-MNIST in its format."
    return ""


def picture(title: str, file: Path, page: Path, drawn: bool) -> str:
    """Returns a link to the picture, also to one of an earlier report."""
    return f"\n\n![{title}]({file.relative_to(page.parent)})" if drawn or file.exists() else ""


def sections(results: Results, old: dict[str, str], page: Path) -> Iterable[str]:
    pictures = page.parent / page.stem

    def made(heading: str, table: tuple[list[str], Rows], *more: str) -> str:
        text = section(heading, *table, old.get(heading, ""))
        return text + "".join(more) if text else ""

    for task in TASKS:
        yield made(task.name, lengths_table(task, results), note(task, results))
        if task in TIMED:
            file = pictures / f"time-{task.name}.png"
            drawn = draw_over_time(task, results, file)
            title = f"Training loss over time, {task.name}, {LINKS[PICTURED_LINK]}"
            yield made(
                f"time to equal loss, {task.name}",
                times_table(task, results),
                picture(title, file, page, drawn),
            )
    for heading, runs in sweeps().items():
        yield made(heading, sweep_table(runs, results))
    for task in TASKS:
        heading = f"low rank, {task.name}"
        if heading in sweeps():
            file = pictures / f"rate-{task.name}.png"
            drawn = draw_over_rate(task, results, file)
            title = f"Test loss over compression rate, {task.name}"
            yield picture(title, file, page, drawn).strip()


def write_report(results: Results, page: Path) -> None:
    before, rest = page.read_text().split(BEGIN)
    between, after = rest.split(END)
    parts = [part.partition("\n") for part in between.split("### ")[1:]]
    old = {heading.strip(): text for heading, _, text in parts}
    text = "\n\n".join(part for part in sections(results, old, page) if part)
    page.write_text(f"{before}{BEGIN}\n\n{text}\n\n{END}{after}")
