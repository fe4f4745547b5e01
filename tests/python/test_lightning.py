"""gradwire's callback in Lightning's Trainer, as in docs/ecosystem.md."""

import sys
from pathlib import Path

import pytest
import torch
from gradwire.lightning import GradwireCallback
from launchers import assert_the_page_holds, launch, outcomes, script_of_the_page
from lightning.pytorch import Trainer
from lightning_worker import VARIANTS, Classifier, batches
from training import same

WORKER = Path(__file__).parent / "lightning_worker.py"


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lightning")
    return folder, outcomes(WORKER, folder, "begin", 2)


def test_gradients_are_compressed_and_workers_stay_alike(begun):
    _, workers = begun
    for variant in VARIANTS:
        for outcome in workers:
            # Two workers train 96 samples in batches of 4 for 4 epochs.
            steps = 48 // VARIANTS[variant][1].get("accumulate_grad_batches", 1)
            assert outcome[variant]["stats"]["steps"] == steps
            assert outcome[variant]["stats"]["wire_ratio"] > 1.5, variant
            assert same(outcome[variant]["weights"], workers[0][variant]["weights"])


def test_resume_is_exact(begun):
    folder, workers = begun
    for wanted, resumed in zip(workers, outcomes(WORKER, folder, "resume", 2), strict=True):
        for variant in VARIANTS:
            assert same(resumed[variant]["weights"], wanted[variant]["weights"]), variant
            assert resumed[variant]["residual_norm"] > 0


def test_a_world_of_another_size_goes_on(begun):
    folder, workers = begun
    resumed = outcomes(WORKER, folder, "resume", 3)
    for variant in VARIANTS:
        assert resumed[0][variant]["stats"]["steps"] > workers[0][variant]["stats"]["steps"] // 2
        for outcome in resumed:
            assert same(outcome[variant]["weights"], resumed[0][variant]["weights"])


def test_a_checkpoint_after_fit_holds_every_workers_state(begun):
    folder, workers = begun
    states = torch.load(folder / "topk-end.ckpt", weights_only=False)["gradwire"]
    steps = workers[0]["topk"]["stats"]["steps"]
    assert [states[w][f"worker{w}/steps"] for w in (0, 1)] == [steps, steps]
    residuals = [states[w][f"worker{w}/net.0.weight/residual"] for w in (0, 1)]
    assert not torch.equal(*residuals)


def test_a_checkpoint_of_weights_alone_holds_no_state(begun):
    folder, _ = begun
    assert "gradwire" not in torch.load(folder / "topk-weights.ckpt", weights_only=False)


def test_the_page_runs_as_it_stands(tmp_path):
    script = script_of_the_page("train_lightning.py", tmp_path)
    assert_the_page_holds(launch([sys.executable, script], tmp_path))


def test_a_strategy_without_ddp_is_refused():
    trainer = Trainer(
        accelerator="cpu", devices=1, max_epochs=1, callbacks=[GradwireCallback("topk")],
        logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False,
    )  # fmt: skip
    with pytest.raises(RuntimeError, match=r"SingleDeviceStrategy does not use; .*strategy='ddp'"):
        trainer.fit(Classifier(), batches())
