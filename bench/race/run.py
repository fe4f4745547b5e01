"""Runs the race. Every cell has a lab of its own, in which the contenders take turns.

python -m bench.race --json race.json --report docs
python -m bench.race --quick
python -m bench.race --cells bert-4x64-250mbit --contenders compute,ddp,acpsgd
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import gradwire
import torch

from bench.race import report
from bench.race.cells import CELLS, QUICK, TINY, Cell
from bench.race.contenders import CONTENDERS

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build/release"))
GRACE = 400  # seconds past its budget until a cell counts as hung; collectives time out after 300


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two small cells, below 5 minutes")
    parser.add_argument("--cells", help=f"comma-separated, out of {', '.join(CELLS)}")
    parser.add_argument("--contenders", help=f"comma-separated, out of {', '.join(CONTENDERS)}")
    parser.add_argument("--steps", type=int, help="timed steps of each contender")
    parser.add_argument("--turn", type=int, help="timed steps of a turn, an even number")
    parser.add_argument("--budget", type=int, metavar="SECONDS", help="budget of each cell")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    parser.add_argument("--report", type=Path, help="write tables and pictures into this folder")
    args = parser.parse_args()
    known = {**(QUICK if args.quick else CELLS), "tiny": TINY}
    names = args.cells.split(",") if args.cells else [name for name in known if name != "tiny"]
    for name, choice, noun in [
        *((name, known, "cell") for name in names),
        *((name, CONTENDERS, "contender") for name in (args.contenders or "compute").split(",")),
    ]:
        if name not in choice:
            parser.error(f"there is no {noun} {name!r}; there are: {', '.join(choice)}")
    if args.turn is not None and (args.turn < 2 or args.turn % 2):
        parser.error("--turn must be an even number, so that P and Q steps weigh the same")
    args.chosen = {name: adapted(known[name], args) for name in names}
    return args


def adapted(cell: Cell, args: argparse.Namespace) -> Cell:
    if args.contenders:
        asked = args.contenders.split(",")
        cell = replace(cell, contenders=tuple(name for name in CONTENDERS if name in asked))
        # Contenders that gather replace the all-reduce of the process, so none may stay alive.
        cell = replace(cell, keep=cell.keep and not any("gathered" in name for name in asked))
    if args.steps:
        cell = replace(cell, steps=args.steps, turn=min(cell.turn, args.steps + args.steps % 2))
    if args.turn:
        cell = replace(cell, turn=args.turn)
    return replace(cell, budget=args.budget) if args.budget else cell


def lab_command(cell: Cell, contenders: list[str], budget: float, out: Path) -> list[str]:
    lab = [BUILD / "bin/gradwire", "lab", "--hosts", cell.workers, "--rate", cell.rate]
    options = {
        "model": cell.model,
        "batch": cell.batch,
        "rank": cell.rank,
        "steps": cell.steps,
        "turn": cell.turn,
        "budget": budget,
        "contenders": ",".join(contenders),
        "out": out,
    }
    worker = [sys.executable, "-m", "bench.race.worker"]
    flags = [item for name, value in options.items() for item in (f"--{name}", value)]
    flags += ["--keep"] if cell.keep else []
    return [str(item) for item in (*lab, "--threads", 1, "--", *worker, *flags)]


def run_cell(cell: Cell) -> dict[str, Any]:
    """If a contender crashes the lab, its error is recorded and the others run again without it."""
    begin = time.monotonic()
    contenders, errors = list(cell.contenders), {}
    environment = dict(os.environ)
    paths = [str(ROOT), str(BUILD / "python"), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = ":".join(filter(None, paths))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "cell.json"
        while True:
            left = cell.budget - (time.monotonic() - begin)
            command = lab_command(cell, contenders, left, out)
            try:
                status = subprocess.run(
                    command, env=environment, cwd=ROOT, timeout=left + GRACE
                ).returncode
                failure = f"a worker ended with status {status}"
            except subprocess.TimeoutExpired:
                status, failure = None, "hung"
            if not out.exists():
                raise SystemExit(f"the lab did not start: {failure}")
            result = json.loads(out.read_text())
            if status == 0:
                break
            culprit = result["running"]
            errors[culprit or "all"] = failure
            print(f"  {culprit}: {failure}", file=sys.stderr)
            if culprit is None or time.monotonic() - begin > cell.budget / 2:
                break  # there is no time to run the others again
            contenders.remove(culprit)
            out.unlink()
    result.pop("running")
    result["errors"].update(errors)
    result["seconds"] = time.monotonic() - begin
    return result


def environment() -> dict[str, Any]:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    cpu = next((line.split(":")[1].strip() for line in lines if "model name" in line), "")
    versions = {}
    for package in ("transformers", "powersgd", "numpy"):
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "cpu": cpu or platform.processor(),
        "cores": os.cpu_count(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "gradwire": gradwire.__version__,
        "load": os.getloadavg()[0],  # of other programs, before the race begins
        **versions,
    }


def main() -> None:
    args = arguments()
    everything: dict[str, Any] = {"environment": environment(), "cells": {}}
    for name, cell in args.chosen.items():
        print(f"{name}: {cell.title}, at most {cell.budget} s", file=sys.stderr, flush=True)
        result = {**asdict(cell), **run_cell(cell)}
        result["summary"] = report.summary(result)
        everything["cells"][name] = result
        print(f"\n{cell.title}\n\n{report.table(result)}\n", flush=True)
        if args.json:  # after every cell, because the race takes long
            args.json.write_text(json.dumps(everything, indent=1))
    if args.report:
        report.write(everything, args.report)
