"""Runs the study, one training after the other. It keeps every result, so it can be stopped and
started again at any time.

    python -m bench.study [--only fashion-cnn] [--report docs/accuracy.md]
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from bench.study.data import data_argument
from bench.study.report import write_report
from bench.study.rows import runs

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build/release"))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--folder", type=Path, default=BUILD / "study", help="folder of the results"
    )
    parser.add_argument("--only", nargs="+", default=[""], help="only runs whose names begin so")
    parser.add_argument("--hours", type=float, default=3, help="start no run after this many hours")
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


def main() -> None:
    args = arguments()
    args.folder.mkdir(parents=True, exist_ok=True)
    given = {"text": args.text, "cifar10": args.cifar10}
    end = time.monotonic() + 3600 * args.hours
    chosen = [run for run in runs() if run.name.startswith(tuple(args.only))]
    for number, run in enumerate(chosen, 1):
        file = args.folder / f"{run.name}.json"
        if file.exists():
            continue
        if time.monotonic() > end:
            print("time is up; start it again to go on")
            break
        print(f"[{number}/{len(chosen)}] {run.name}", flush=True)
        unfinished = file.with_suffix(".new")
        data = data_argument(run.task.data, args.folder, given.get(run.task.data))
        command = [str(BUILD / "bin/gradwire"), "train", *run.arguments(data, args.quick)]
        command += ["--json", str(unfinished)]
        if subprocess.run(command, check=False).returncode != 0:
            sys.exit(f"{run.name} failed: {' '.join(command)}")
        unfinished.rename(file)
    if args.report:
        results = {
            run: json.loads(file.read_text())
            for run in chosen
            if (file := args.folder / f"{run.name}.json").exists()
        }
        write_report(results, args.report)
