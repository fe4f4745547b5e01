"""How far predictions are from measurements: every method on models and rates of the race.

    python -m bench.prediction [--json FILE] [--models mlp,lstm] [--rates 100mbit,250mbit,1gbit]

For every rate the link is probed and every method trains some steps, two at a time in turn. The
profiles that the methods record at the last rate serve to predict all of them, so the other rates
are not fitted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import gradwire
import torch
import torch.distributed as dist

from bench.race.models import make_batches, make_model
from bench.race.worker import Entrant, keep_freed_memory

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build/release"))
METHODS = ("allreduce", "half", "sign", "topk", "powersgd", "acpsgd", "adacomp")
BATCHES = {"mlp": 128, "lstm": 20, "bert": 4, "resnet50": 4, "mlp-small": 8}
RANK = 4
TURN = 2
STEPS = 16
SECONDS = 15.0  # of timed steps of a method, at the most, once there are four


def seconds_of_turn(entrant: Entrant) -> list[float]:
    """Of forward and backward, on the slowest worker."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, entrant.take_turn(TURN)["steps"])
    return [max(sum(step[:2]) for step in steps) for steps in zip(*everyone, strict=True)]


def work(name: str, out: Path) -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    base, batches = make_model(name), make_batches(name, BATCHES[name], dist.get_rank())
    entrants = {method: Entrant(method, base, batches, RANK) for method in METHODS}
    seconds: dict[str, list[float]] = {method: [] for method in METHODS}
    for _ in range(STEPS // TURN):
        for method, entrant in entrants.items():
            if len(seconds[method]) < 4 or sum(seconds[method]) < SECONDS:
                seconds[method] += seconds_of_turn(entrant)
    measured = {
        method: (statistics.median(seconds[method]), entrant.contender.attachment.profile())
        for method, entrant in entrants.items()
    }
    if dist.get_rank() == 0:
        out.write_text(json.dumps(measured))
    dist.barrier()


def in_lab(rate: str, *command: str) -> None:
    lab = [BUILD / "bin/gradwire", "lab", "--hosts", "2", "--rate", rate, "--threads", "1", "--"]
    subprocess.run([*lab, *command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def predicted(profile: dict[str, Any], link: dict[str, Any], method: str) -> float:
    """The link's bandwidth is the probe's own, so no name of a rate comes into it."""
    result = gradwire.plan(profile=profile, link=link, methods=[method], rank=RANK)
    return result["points"][0]["methods"][method]["seconds"]


def compare(name: str, rates: list[str], folder: Path) -> list[dict[str, Any]]:
    links, measured = {}, {}
    for rate in rates:
        print(f"{name} at {rate}", file=sys.stderr, flush=True)
        in_lab(rate, str(BUILD / "bin/gradwire"), "probe", "--json", str(folder / "link.json"))
        links[rate] = json.loads((folder / "link.json").read_text())
        out = folder / "measured.json"
        in_lab(rate, sys.executable, "-m", "bench.prediction", "--work", name, "--json", str(out))
        measured[rate] = json.loads(out.read_text())
    return [
        {
            "model": name,
            "rate": rate,
            "method": method,
            "measured": measured[rate][method][0],
            "predicted": predicted(measured[rates[-1]][method][1], links[rate], method),
        }
        for rate in rates
        for method in METHODS
    ]


def wrong_orders(rows: list[dict[str, Any]]) -> list[str]:
    """Pairs of methods, in one place, that differ by more than 10 % and are predicted reversed."""
    found = []
    for a in rows:
        for b in rows:
            same_place = (a["model"], a["rate"]) == (b["model"], b["rate"])
            differ = a["measured"] * 1.1 < b["measured"]
            if same_place and differ and a["predicted"] > b["predicted"]:
                found.append(f"{a['model']} at {a['rate']}: {a['method']} before {b['method']}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="mlp,lstm")
    parser.add_argument("--rates", default="100mbit,250mbit,1gbit")
    parser.add_argument("--json", type=Path, help="write everything measured here")
    parser.add_argument("--work", metavar="MODEL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work, args.json)
    else:
        check(args)


def check(args: argparse.Namespace) -> None:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            rows += compare(name, args.rates.split(","), Path(folder))
    for row in rows:
        row["error"] = row["predicted"] / row["measured"] - 1
        print("{model:8} {rate:8} {method:10} {measured:8.3f} s {predicted:8.3f} s".format(**row),
              f"{100 * row['error']:+6.1f} %")  # fmt: skip
    errors = [abs(row["error"]) for row in rows]
    print(f"median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %")
    print("order wrong:", *(wrong_orders(rows) or ["nowhere"]), sep="\n  ")
    if args.json:
        args.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
