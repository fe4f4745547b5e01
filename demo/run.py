"""Trains Fashion-MNIST with every method on local workers, one method after the other.

Prints one table and writes a report with plots. `make demo` calls it.
"""

from __future__ import annotations

import argparse
import base64
import html
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display needed
import gradwire
import matplotlib.pyplot as plt

ROOT = Path(__file__).resolve().parent.parent
# Told apart by people with any kind of colour vision (Okabe and Ito), and by shape.
COLOURS = ["#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"]
MARKERS = "osD^vPX"

Result = dict[str, Any]  # what the training program writes, see examples/train_fashion_mnist.cpp


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--program",
        type=Path,
        default=ROOT / "build/release/examples/train_fashion_mnist",
        help="the built train_fashion_mnist (default: %(default)s)",
    )
    parser.add_argument(
        "--methods",
        nargs="+",
        default=[name for name in gradwire.methods() if name != "auto"],
        metavar="NAME[:key=value,...]",
        help="default: all of them",
    )
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16, help="samples per worker and step")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--train-limit", type=int, default=6000)
    parser.add_argument("--test-limit", type=int, default=2500)
    parser.add_argument("--report", type=Path, default=ROOT / "report")
    args = parser.parse_args()
    if args.workers < 2:
        parser.error("--workers: one worker alone sends nothing; take 2 or more")
    if not args.program.is_file():
        parser.error(f"--program: {args.program} is not there; build it first")
    return args


# ---- running ----


class WorkerFailure(Exception):
    pass


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def start(command: list[str], logs: list[Path], processes: list[subprocess.Popen]) -> None:
    """One worker per log, added to ``processes`` one by one: Ctrl-C may come in between."""
    environment = os.environ | {
        "WORLD_SIZE": str(len(logs)),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "OMP_NUM_THREADS": "1",
        # Not every machine can resolve its own name, and all workers are here anyway.
        "GLOO_SOCKET_IFNAME": "lo",
    }
    for worker, log in enumerate(logs):
        with log.open("wb") as output:
            processes.append(
                subprocess.Popen(
                    command,
                    env=environment | {"RANK": str(worker)},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                )
            )


def stop(processes: list[subprocess.Popen]) -> None:
    for process in processes:
        if process.poll() is None:
            process.kill()
    for process in processes:
        process.wait()


def watch(processes: list[subprocess.Popen], logs: list[Path], name: str) -> None:
    """Show what worker 0 says until all have ended; WorkerFailure as soon as one has failed."""
    shown = 0
    while True:
        ended = [process.poll() for process in processes]
        *lines, _ = logs[0].read_text(errors="replace").split("\n")
        if not any(ended):
            for line in lines[shown:]:
                print(f"  {name:<12} {line}", flush=True)
            shown = len(lines)
        else:
            time.sleep(1)  # the others notice too, and often one of them knows more
            raise WorkerFailure(describe_failure(processes, logs))
        if all(code == 0 for code in ended):
            return
        time.sleep(0.1)


def describe_failure(processes: list[subprocess.Popen], logs: list[Path]) -> str:
    said: dict[str, list[str]] = {}
    for worker, (process, log) in enumerate(zip(processes, logs, strict=True)):
        code = process.poll()
        if not code:
            continue
        how = f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        text = log.read_text(errors="replace").strip() or "(no output)"
        said.setdefault(text, []).append(f"worker {worker} ({how})")
    return "\n".join(f"{', '.join(workers)}:\n{text}" for text, workers in said.items())


def train(args: argparse.Namespace, method: str) -> Result:
    with tempfile.TemporaryDirectory(prefix="gradwire-demo-") as folder:
        logs = [Path(folder) / f"worker{worker}.log" for worker in range(args.workers)]
        outcome = Path(folder) / "result.json"
        command = [str(args.program.resolve()), "--method", method, "--json", str(outcome)]
        for name in ("epochs", "batch", "lr", "train_limit", "test_limit"):
            command += [f"--{name.replace('_', '-')}", str(getattr(args, name))]
        processes: list[subprocess.Popen] = []
        try:
            start(command, logs, processes)
            watch(processes, logs, method)
        finally:
            stop(processes)
        return {"name": method} | json.loads(outcome.read_text())


# ---- the table ----

COLUMNS = (
    "method",
    "test accuracy",
    "s / step",
    "bytes / step / worker",
    "compression rate",
    "wire ratio",
)


def bytes_per_step(result: Result) -> float:
    return result["wire"]["sent_bytes"] / result["wire"]["steps"]


def rows(results: list[Result]) -> list[tuple[str, ...]]:
    return [
        (
            result["name"],
            f"{100 * result['epochs'][-1]['test_accuracy']:.2f} %",
            f"{result['seconds_per_step']:.4f}",
            f"{bytes_per_step(result):,.0f}",
            f"{result['wire']['code_ratio']:.1f}x",
            f"{result['wire']['wire_ratio']:.1f}x",
        )
        for result in results
    ]


def text_table(results: list[Result]) -> str:
    table = [COLUMNS, *rows(results)]
    widths = [max(len(row[column]) for row in table) for column in range(len(COLUMNS))]

    def line(row: tuple[str, ...]) -> str:
        # Names to the left, numbers to the right.
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True)]
        return "  ".join(cells)

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([line(COLUMNS), rule, *map(line, table[1:])])


# ---- the report ----


def curve(results: list[Result], file: Path, label: str, scale: str, amounts: Any) -> None:
    """Test accuracy over what ``amounts(result)`` gives for each epoch."""
    figure, axes = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for index, result in enumerate(results):
        axes.plot(
            amounts(result),
            [100 * epoch["test_accuracy"] for epoch in result["epochs"]],
            color=COLOURS[index % len(COLOURS)],
            marker=MARKERS[index % len(MARKERS)],
            label=result["name"],
        )
    axes.set(xlabel=label, ylabel="test accuracy (%)", xscale=scale)
    if scale == "linear":
        axes.set_xlim(left=0)
    else:
        axes.xaxis.set_major_formatter("{x:g}")  # 100, not 10 to the power of 2
    axes.grid(alpha=0.3)
    # Beside the axes, where no curve can run behind it.
    figure.legend(loc="outside right upper", frameon=False)
    figure.savefig(file, dpi=130)
    plt.close(figure)


def seconds_so_far(result: Result) -> list[float]:
    total, so_far = 0.0, []
    for epoch in result["epochs"]:
        total += epoch["seconds"]
        so_far.append(total)
    return so_far


def megabytes_so_far(result: Result) -> list[float]:
    return [epoch["sent_bytes"] / 1e6 for epoch in result["epochs"]]


def bars(results: list[Result], file: Path) -> None:
    figure, axes = plt.subplots(figsize=(7.5, 1.2 + 0.5 * len(results)), layout="constrained")
    kilobytes = [bytes_per_step(result) / 1e3 for result in results]
    drawn = axes.barh(
        [result["name"] for result in results],
        kilobytes,
        color=[COLOURS[index % len(COLOURS)] for index in range(len(results))],
    )
    axes.bar_label(drawn, [f"{value:,.1f} kB" for value in kilobytes], padding=4)
    axes.set_xlabel("sent per step and worker (kB)")
    axes.margins(x=0.15)  # room for the labels
    axes.invert_yaxis()  # first method on top, as in the table
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    figure.savefig(file, dpi=130)
    plt.close(figure)


PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>gradwire: Fashion-MNIST</title><style>
body {{ font-family: sans-serif; max-width: 60em; margin: 2em auto; padding: 0 1em; color: #222; }}
table {{ border-collapse: collapse; }}
th, td {{ padding: 0.35em 0.9em; text-align: right; border-bottom: 1px solid #ccc; }}
th:first-child, td:first-child {{ text-align: left; }}
img {{ max-width: 100%; }}
</style></head><body>
<h1>Fashion-MNIST with compressed gradients</h1>
<p>{setting}</p>
{table}
<p>The compression rate compares a worker's gradient with what it was encoded into; the wire ratio
compares what plain all-reduce sends with what the method sends. Times exclude the evaluation; all
workers share one machine, so they show the cost of computing and none of a slow network.</p>
{pictures}
</body></html>
"""


def html_table(results: list[Result]) -> str:
    def line(tag: str, cells: tuple[str, ...]) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(c)}</{tag}>" for c in cells) + "</tr>"

    body = "\n".join(line("td", row) for row in rows(results))
    return f"<table>\n{line('th', COLUMNS)}\n{body}\n</table>"


def write_report(args: argparse.Namespace, results: list[Result]) -> Path:
    folder: Path = args.report
    folder.mkdir(parents=True, exist_ok=True)
    over_time, over_bytes, per_step = (
        folder / f"{name}.png" for name in ("accuracy_time", "accuracy_bytes", "bytes_per_step")
    )
    curve(results, over_time, "training time (s)", "linear", seconds_so_far)
    label = "sent by one worker so far (MB, logarithmic)"
    curve(results, over_bytes, label, "log", megabytes_so_far)
    bars(results, per_step)
    pictures = "\n".join(
        f'<h2>{title}</h2>\n<img alt="{title}" src="data:image/png;base64,'
        f'{base64.b64encode(file.read_bytes()).decode()}">'
        for title, file in (
            ("Accuracy over time", over_time),
            ("Accuracy over bytes sent", over_bytes),
            ("Bytes per step", per_step),
        )
    )
    setting = (
        f"{args.workers} workers, {args.epochs} epochs of {args.train_limit} samples, "
        f"{args.batch} per worker and step, learning rate {args.lr}; "
        f"tested on {args.test_limit} samples."
    )
    page = folder / "index.html"
    page.write_text(
        PAGE.format(setting=setting, table=html_table(results), pictures=pictures),
        encoding="utf-8",
    )
    (folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
    return page


def main() -> int:
    args = arguments()
    # An end by `kill` must not leave the workers behind either.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    begin = time.monotonic()
    results = []
    try:
        for number, method in enumerate(args.methods, 1):
            print(f"[{number}/{len(args.methods)}] {method} on {args.workers} workers", flush=True)
            results.append(train(args, method))
    except WorkerFailure as failure:
        print(f"{method} failed:\n{failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; the workers are stopped", file=sys.stderr)
        return 130
    print(f"\n{text_table(results)}\n")
    page = write_report(args, results)
    print(f"{time.monotonic() - begin:.0f} s in all. Report: {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
