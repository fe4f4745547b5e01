"""Runs the study, one training after the other. It keeps every result, so it can be stopped and
started again at any time.

    python -m bench.study [--only gpt] [--report docs/accuracy.md]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from bench.study.data import data_argument
from bench.study.equal_loss import Results, attempts, candidates, first_attempts
from bench.study.report import write_report
from bench.study.rows import (
    CIFAR,
    FASHION,
    GPT,
    LENGTHS,
    LSTM,
    SEEDS,
    TIMED,
    Run,
    long_trainings,
    step_times,
    sweeps,
    trainings,
)

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build/release"))


def schedule(results: Results) -> Iterable[Run]:
    """Yields all runs in an order in which an unfinished study is most useful. What comes late may
    depend on what is in `results` by then."""
    main = (GPT, CIFAR)
    yield from trainings(main, LENGTHS[:1], SEEDS[0])
    for sweep in sweeps().values():
        yield from sweep
    yield from trainings(main, LENGTHS[1:], SEEDS[0])
    for seed in SEEDS[1:]:
        yield from trainings(main, LENGTHS, seed)
    yield from step_times(main)
    for first in first_attempts(main):
        yield from attempts(first, results)
    for seed in SEEDS:
        yield from trainings((LSTM,), LENGTHS, seed)
    yield from step_times((LSTM,))
    for first in first_attempts((LSTM,)):
        yield from attempts(first, results)
    yield from trainings((FASHION,), LENGTHS, SEEDS[0])
    yield from long_trainings()


def possible_runs() -> Iterable[Run]:
    """Yields all runs that a folder may have, some of them twice."""
    yield from schedule({})
    for first in first_attempts(TIMED):
        yield from candidates(first)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, default=BUILD / "study", help="folder of the results"
    )
    parser.add_argument("--only", nargs="+", default=[""], help="only runs whose names begin so")
    parser.add_argument(
        "--hours", type=float, default=12, help="start no run after this many hours"
    )
    parser.add_argument(
        "--text", type=Path, help="a text file to train on; otherwise the project's own files"
    )
    parser.add_argument(
        "--cifar10",
        type=Path,
        help="folder of CIFAR-10, binary version; otherwise made of Fashion-MNIST",
    )
    parser.add_argument("--quick", action="store_true", help="only a few steps of each run")
    parser.add_argument("--report", type=Path, help="write the tables into this page")
    return parser.parse_args()


def train(run: Run, data: str, quick: bool, file: Path) -> bool:
    unfinished = file.with_suffix(".new")
    command = [str(BUILD / "bin/gradwire"), "train", *run.arguments(data, quick)]
    done = subprocess.run([*command, "--json", str(unfinished)], check=False)
    if done.returncode != 0:
        print(f"{run.name} failed: {' '.join(command)}", file=sys.stderr, flush=True)
        return False
    unfinished.rename(file)
    return True


def main() -> None:
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    given = {"text": args.text, "cifar10": args.cifar10}
    begin = time.monotonic()

    def file_of(run: Run) -> Path:
        return args.folder / f"{run.name}.json"

    results = {
        run: json.loads(file_of(run).read_text())
        for run in dict.fromkeys(possible_runs())
        if file_of(run).exists()
    }
    failed: set[Run] = set()
    for run in schedule(results):
        if run in results or run in failed or not run.name.startswith(tuple(args.only)):
            continue
        hours = (time.monotonic() - begin) / 3600
        if hours > args.hours:
            print("time is up; start it again to go on")
            break
        print(f"[{hours:.2f} h] {run.name}", flush=True)
        data = data_argument(run.task.data, args.folder, given.get(run.task.data))
        if train(run, data, args.quick, file_of(run)):
            results[run] = json.loads(file_of(run).read_text())
        else:
            failed.add(run)
    if args.report:
        write_report(results, args.report)
    if failed:
        sys.exit(f"{len(failed)} runs failed: {', '.join(sorted(run.name for run in failed))}")
