"""Method `auto` measures a real link and takes the same decision on all workers."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from pathlib import Path

import gradwire
import pytest
import torch
from built import COMMAND
from launchers import skip_without_lab
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from training import batch, same, small_net
from worlds import run_world, run_world_with_errors

HERE = Path(__file__).parent


def in_the_lab(folder: Path, rate: str, scenario: str) -> list[dict]:
    command = [COMMAND, "lab", "--hosts", "2", "--rate", rate, "--"]
    command += [sys.executable, HERE / "auto_worker.py", folder, scenario]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240)
    skip_without_lab(done)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"outcome{worker}.json").read_text()) for worker in range(2)]


@pytest.mark.alone
def test_a_slow_link_is_found_out_and_compressed_for(tmp_path):
    outcomes = in_the_lab(tmp_path, "40mbit", "slow_link")
    assert outcomes[0]["plan"] == outcomes[1]["plan"]
    for outcome in outcomes:
        assert outcome["before"] == ["uncompressed"]
        assert outcome["after"] in (["topk"], ["sign"])  # its candidates
        # 4 MB at 40 Mb/s take 0.8 s.
        assert outcome["plain_seconds"] > 0.7
        assert outcome["seconds"] < 0.3 * outcome["plain_seconds"]
    assert len(outcomes[0]["messages"]) == 1
    assert "a step is expected to take" in outcomes[0]["messages"][0]
    assert outcomes[1]["messages"] == []


@pytest.mark.alone
def test_it_changes_its_mind_when_the_link_does(tmp_path):
    outcomes = in_the_lab(tmp_path, "unlimited", "link_that_becomes_slow")
    assert outcomes[0]["plan"] == outcomes[1]["plan"]
    for outcome in outcomes:
        assert outcome["at_first"] == ["uncompressed"]
        assert outcome["later"] != ["uncompressed"]


@pytest.mark.alone
def test_a_resumed_run_starts_with_the_saved_plan(tmp_path):
    for outcome in in_the_lab(tmp_path, "40mbit", "resumed"):
        assert outcome["at_once"] == outcome["saved"] != ["uncompressed"]
        assert outcome["later"][0] == outcome["later"][1]
        assert outcome["same"]


def beside_stock_ddp(worker: int) -> tuple[bool, str, set[str]]:
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256))
    stock, ours = (DistributedDataParallel(copy.deepcopy(net)) for _ in range(2))
    gw = gradwire.attach(ours, "auto")
    for model in (stock, ours):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
        for step in range(20):
            # With many samples and few weights the network has almost nothing to do.
            x = torch.randn(4096, 256, generator=torch.Generator().manual_seed(9 * step + worker))
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()
    equal = same(list(ours.parameters()), list(stock.parameters()))
    stats = gw.stats()
    return equal, stats["method"], set(stats["plan"].values())


@pytest.mark.alone
@pytest.mark.parametrize("workers", [1, 2, 3])
def test_where_the_link_is_fast_it_is_stock_ddp_to_the_last_bit(workers):
    for outcome in run_world(workers, beside_stock_ddp):
        assert outcome == (True, "auto", {"uncompressed"})


def evaluated_by_one_worker(worker: int) -> int:
    """`auto` decides during these steps. Worker 0 must not wait for the other to evaluate."""
    ddp = DistributedDataParallel(small_net())
    gw = gradwire.attach(ddp, "auto")
    for step in range(12):
        x, y = batch(worker, step)
        nn.functional.cross_entropy(ddp(x), y).backward()
        if worker == 0:
            ddp.eval()
            with torch.no_grad():
                ddp(x)
            ddp.train()
        torch.distributed.barrier()
    return gw.stats()["steps"]


def test_an_evaluation_on_one_worker_is_no_step():
    assert run_world(2, evaluated_by_one_worker) == [12, 12]


def joined(worker: int) -> int:
    ddp = DistributedDataParallel(small_net())
    gw = gradwire.attach(ddp, "auto")
    with ddp.join():
        for step in range(5 + 6 * worker):
            x, y = batch(worker, step)
            nn.functional.cross_entropy(ddp(x), y).backward()
    return gw.stats()["steps"]


def test_under_join_it_decides_nothing():
    assert run_world(2, joined) == [11, 11]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"candidates": "half+magic"}, "candidates must be one or more of half"),
        ({"candidates": "half+topk"}, "candidate topk sends a part of the gradient steps later"),
        ({"per_parameter": {"*": {"rank": 2}}}, "every entry must name its method"),
        ({"error_feedback": False}, 'has no option "error_feedback"'),
    ],
)
def test_wrong_use_is_refused(options, text):
    for outcome in run_world_with_errors(2, attach_with, options):
        assert outcome.kind == "ValueError"
        assert text in outcome.message


def attach_with(worker: int, options: dict) -> None:
    gradwire.attach(DistributedDataParallel(small_net()), "auto", **options)


def loaded_with_other_candidates(worker: int) -> str:
    ddp = DistributedDataParallel(small_net())
    gw = gradwire.attach(ddp, "auto", candidates="acpsgd+sign", delayed=True)
    state = gw.state_dict()
    decision = {"format": "gradwire-decision-2", "methods": {"0.weight": "topk"}}
    decision |= {"expected_seconds": 1.0, "plain_seconds": 2.0, "loss": 4.0}
    contest = {"format": "gradwire-contest-3", "contenders": [decision], "waiting": [], "round": 1}
    state[f"worker{worker}/auto"] = json.dumps(
        {"contest": contest, "next_look": 16, "other_seconds": 0.0}
    )
    with pytest.raises(ValueError, match=r"topk for 0\.weight, which is not among its candidates"):
        gw.load_state_dict(state)
    return gw.stats()["plan"]["0.weight"]


def test_a_saved_decision_for_other_candidates_is_refused():
    assert run_world(2, loaded_with_other_candidates) == ["uncompressed"] * 2
