"""States that released versions saved: later ones load them and go on alike."""

from pathlib import Path

import gradwire
import old_states
import pytest
import torch
from torch.nn.parallel import DistributedDataParallel
from worlds import run_world

FILES = sorted(old_states.FOLDER.glob("*.pt"))


def test_there_are_some():
    assert FILES


def continued(worker: int, file: Path) -> dict[str, bool]:
    """Whether the step after each saved state is what the old version made of it."""
    saved = torch.load(file, weights_only=True)
    alike = {}
    for name, (method, options) in old_states.VARIANTS.items():
        ddp = DistributedDataParallel(old_states.Feeder())
        gw = gradwire.attach(ddp, method, **options)
        gw.load_state_dict(saved[name][worker]["state"])
        found = old_states.step(ddp, worker, old_states.STEPS)
        # Another processor may round otherwise. Products of factors may be taken in bf16 now.
        has_factors = "rank" in gradwire.methods()[method]["options"]
        tolerance = {"rtol": 1e-2, "atol": 2e-2} if has_factors else {"rtol": 1e-4, "atol": 1e-5}
        alike[name] = all(
            torch.allclose(a, b, **tolerance)
            for a, b in zip(found, saved[name][worker]["next"], strict=True)
        )
    return alike


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_goes_on_where_the_old_version_was(file):
    for alike in run_world(old_states.WORKERS, continued, file):
        assert alike == dict.fromkeys(old_states.VARIANTS, True)


def decided(worker: int, file: Path) -> list[tuple[dict[str, str], dict[str, str]]]:
    """How parameters travel after loading a state of ``auto``: as it was, and as it is."""
    found = []
    for outcomes in torch.load(file, weights_only=True)["auto"].values():
        ddp = DistributedDataParallel(old_states.Feeder())
        gw = gradwire.attach(ddp, "auto", candidates="topk+acpsgd", delayed=True, rank=2)
        gw.load_state_dict(outcomes[worker]["state"])
        for number in range(20):
            old_states.step(ddp, worker, number)
            if number == 0:
                found.append((outcomes[worker]["plan"], gw.stats()["plan"]))
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_auto_goes_on_with_what_it_had_decided(file):
    for found in run_world(old_states.WORKERS, decided, file):
        for before, after in found:
            methods = [{n: text.split()[0] for n, text in plan.items()} for plan in (before, after)]
            assert methods[0] == methods[1]
