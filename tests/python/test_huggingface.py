"""gradwire with the Trainer of transformers and with Accelerate, as in docs/ecosystem.md."""

import shutil
import sys
from pathlib import Path

import pytest
from huggingface_worker import ACCELERATE_VARIANTS, TRAINER_VARIANTS
from launchers import (
    accelerate_launch,
    assert_the_page_holds,
    launch,
    outcomes,
    script_of_the_page,
    torchrun,
)
from training import same

WORKER = Path(__file__).parent / "huggingface_worker.py"
VARIANTS = [*TRAINER_VARIANTS, *ACCELERATE_VARIANTS]


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("huggingface")
    return folder, outcomes(WORKER, folder, "begin", 2)


def test_gradients_are_compressed_and_workers_stay_alike(begun):
    _, workers = begun
    for variant in VARIANTS:
        for outcome in workers:
            assert outcome[variant]["stats"]["steps"] == 8, variant
            assert outcome[variant]["stats"]["wire_ratio"] > 1.3, variant
            assert same(outcome[variant]["weights"], workers[0][variant]["weights"]), variant


def test_resume_is_exact(begun):
    folder, workers = begun
    for wanted, resumed in zip(workers, outcomes(WORKER, folder, "resume", 2), strict=True):
        for variant in VARIANTS:
            assert same(resumed[variant]["weights"], wanted[variant]["weights"]), variant
            assert resumed[variant]["residual_norm"] > 0, variant


def test_a_world_of_another_size_goes_on(begun):
    folder, _ = begun
    resumed = outcomes(WORKER, folder, "resume", 3)
    for variant in VARIANTS:
        assert resumed[0][variant]["stats"]["steps"] > 4, variant
        for outcome in resumed:
            assert same(outcome[variant]["weights"], resumed[0][variant]["weights"]), variant


def test_a_checkpoint_that_lacks_a_workers_state_is_refused(begun, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(begun[0], folder)
    (folder / "begun/topk/checkpoint-4/gradwire-worker0.pt").unlink()
    printed = launch([*torchrun(2), WORKER, "resume", folder], tmp_path, fails=True)
    assert "worker 0 finds no state of gradwire in" in printed


@pytest.mark.parametrize("launcher", [torchrun, accelerate_launch])
@pytest.mark.parametrize("script", ["train_trainer.py", "train_accelerate.py"])
def test_the_page_runs_as_it_stands(launcher, script, tmp_path):
    name = script_of_the_page(script, tmp_path)
    assert_the_page_holds(launch([*launcher(2), name], tmp_path))


@pytest.mark.parametrize("script", ["train_trainer.py", "train_accelerate.py"])
def test_one_process_without_a_launcher_is_refused(script, tmp_path):
    name = script_of_the_page(script, tmp_path)
    printed = launch([sys.executable, name], tmp_path, fails=True)
    assert "start several workers with torchrun or accelerate launch" in printed
