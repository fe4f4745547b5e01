"""Compares predictions with measurements, and `auto` with the best method.

    python -m bench.prediction [--json FILE] [--models mlp,lstm] [--rates 100mbit,250mbit,1gbit]

For every rate the link is probed. Then stock DDP, every method and, once it has decided, `auto`
take turns of four training steps. The profiles that the methods record at the last rate are used to
predict all rates, so that nothing is fitted to the other rates.
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

from bench.process_memory import keep_freed_memory
from bench.race.models import make_batches, make_model
from bench.race.worker import Entrant

ROOT = Path(__file__).resolve().parents[1]
BUILD = Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build/release"))
DDP, AUTO = "ddp", "auto"
METHODS = tuple(name for name in gradwire.methods() if name != AUTO)
BATCHES = {"mlp": 128, "lstm": 20, "bert": 1, "resnet50": 4, "mlp-small": 8}
RANK = 4
TURN = 4
STEPS = 16
SECONDS = 15.0  # after so many seconds of timed steps a method has no further turn


def seconds_of_turn(entrant: Entrant) -> list[float]:
    """Returns the seconds of forward and backward in each step, on the slowest worker."""
    everyone: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, entrant.take_turn(TURN)["steps"])
    return [max(sum(step[:2]) for step in steps) for steps in zip(*everyone, strict=True)]


def work(model: str, out: Path) -> None:
    keep_freed_memory()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    base, batches = make_model(model), make_batches(model, BATCHES[model], dist.get_rank())
    entrants = {name: Entrant(name, base, batches, RANK) for name in (DDP, *METHODS, AUTO)}
    seconds: dict[str, list[float]] = {name: [] for name in entrants}
    for _ in range(STEPS // TURN):
        for name, entrant in entrants.items():
            if sum(seconds[name]) < SECONDS:
                seconds[name] += seconds_of_turn(entrant)
    if dist.get_rank() == 0:
        state = entrants[AUTO].contender.attachment.state_dict()
        measured = {
            "seconds": {name: statistics.median(values) for name, values in seconds.items()},
            "profiles": {name: entrants[name].contender.attachment.profile() for name in METHODS},
            "contest": tried_in(json.loads(state["worker0/auto"])["contest"]),
        }
        out.write_text(json.dumps(measured))
    dist.barrier()
    for entrant in entrants.values():
        entrant.leave()
    dist.destroy_process_group()


def tried_in(contest: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns what `auto` tried when it last decided, and the seconds of a step."""
    return [
        {
            "methods": sorted(set(contender["methods"].values())) or ["allreduce"],
            "seconds": contender["expected_seconds"],
        }
        for contender in contest["contenders"]
    ]


def in_lab(rate: str, *command: str) -> None:
    lab = [BUILD / "bin/gradwire", "lab", "--hosts", "2", "--rate", rate, "--threads", "1", "--"]
    subprocess.run([*lab, *command], check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def predicted(profile: dict[str, Any], link: dict[str, Any], method: str) -> float:
    """Predicts with the bandwidth that the probe has measured, not with the lab's rate."""
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
    profiles = measured[rates[-1]]["profiles"]
    return [compared(name, rate, measured[rate], profiles, links[rate]) for rate in rates]


def compared(
    model: str,
    rate: str,
    measured: dict[str, Any],
    profiles: dict[str, Any],
    link: dict[str, Any],
) -> dict[str, Any]:
    seconds = measured["seconds"]
    expected = {method: predicted(profiles[method], link, method) for method in METHODS}
    return {
        "model": model,
        "rate": rate,
        "measured": seconds,
        "predicted": expected,
        "errors": {method: expected[method] / seconds[method] - 1 for method in METHODS},
        "contest": measured["contest"],
    }


def wrong_orders(place: dict[str, Any]) -> list[str]:
    """Returns pairs of methods that differ by more than 10 % and are predicted in reverse order."""
    measured, predicted = place["measured"], place["predicted"]
    return [
        f"{place['model']} at {place['rate']}: {a} before {b}"
        for a in METHODS
        for b in METHODS
        if measured[a] * 1.1 < measured[b] and predicted[a] > predicted[b]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", default="mlp,lstm")
    parser.add_argument("--rates", default="100mbit,250mbit,1gbit")
    parser.add_argument("--json", type=Path, help="write all measurements to this file")
    parser.add_argument("--work", metavar="MODEL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work, args.json)
    else:
        check(args)


def check(args: argparse.Namespace) -> None:
    places: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in args.models.split(","):
            found = compare(name, args.rates.split(","), Path(folder))
            for place in found:
                show(place)
            places += found
            if args.json:
                args.json.write_text(json.dumps(places, indent=1))
    errors = [abs(error) for place in places for error in place["errors"].values()]
    print(f"median error {100 * statistics.median(errors):.1f} %, worst {100 * max(errors):.1f} %")
    wrong = [pair for place in places for pair in wrong_orders(place)]
    print("order wrong:", *(wrong or ["nowhere"]), sep="\n  ")


def show(place: dict[str, Any]) -> None:
    measured, predicted = place["measured"], place["predicted"]
    print(f"{place['model']} at {place['rate']}")
    print(f"  {DDP:10} {measured[DDP]:8.3f} s")
    for name in METHODS:
        error = f"{100 * place['errors'][name]:+6.1f} %"
        print(f"  {name:10} {measured[name]:8.3f} s {predicted[name]:8.3f} s {error}")
    best = min(measured[name] for name in (DDP, *METHODS))
    print(
        f"  {AUTO:10} {measured[AUTO]:8.3f} s, {measured[AUTO] / best:.3f} of the best,",
        f"{measured[AUTO] / measured[DDP]:.3f} of {DDP}",
        flush=True,
    )
    for tried in place["contest"]:
        print(f"    tried {'+'.join(tried['methods']):20} {tried['seconds']:8.3f} s")


if __name__ == "__main__":
    main()
