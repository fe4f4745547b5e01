"""One worker of test_lightning.py. A launcher starts it with begin or resume, and FOLDER."""

import os
import sys
from pathlib import Path

import torch
from gradwire.lightning import GradwireCallback
from lightning.pytorch import LightningModule, Trainer, seed_everything
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.plugins import MixedPrecision
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

EPOCHS = 4
# The options of gradwire and those of the Trainer.
VARIANTS = {
    "topk": ({"method": "topk", "density": 0.05}, {}),
    "acpsgd": ({"method": "acpsgd", "rank": 2}, {"accumulate_grad_batches": 2}),
    "adacomp": ({"method": "adacomp"}, {"plugins": "scaler"}),
}


class Classifier(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        seed_everything(7)
        self.net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.02, momentum=0.9)


def batches() -> DataLoader:
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(96, 32, generator=generator)
    y = torch.randint(10, (96,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=4)


def fit(variant: str, folder: Path, ckpt_path: Path | None = None) -> dict:
    """Trains, and saves a checkpoint after half of the epochs and one at the end."""
    options, trainer_options = VARIANTS[variant]
    if trainer_options.get("plugins") == "scaler":
        # The scale changes between the saved step and the next.
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=5)
        trainer_options = {"plugins": MixedPrecision("16-mixed", "cpu", scaler)}
    callback = GradwireCallback(**options)
    half_way = ModelCheckpoint(folder, f"{variant}-{{epoch}}", every_n_epochs=2, save_top_k=-1)
    trainer = Trainer(
        accelerator="cpu", devices=int(os.environ["WORLD_SIZE"]), strategy="ddp",
        max_epochs=EPOCHS, callbacks=[callback, half_way], logger=False,
        enable_progress_bar=False, enable_model_summary=False, **trainer_options,
    )  # fmt: skip
    model = Classifier()
    trainer.fit(model, batches(), ckpt_path=ckpt_path)
    trainer.save_checkpoint(folder / f"{variant}-end.ckpt")
    trainer.save_checkpoint(folder / f"{variant}-weights.ckpt", weights_only=True)
    return {
        "weights": [p.detach().clone() for p in model.parameters()],
        "stats": callback.gw.stats(),
        "residual_norm": callback.gw.residual_norm(),
    }


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    worker, workers = os.environ["RANK"], os.environ["WORLD_SIZE"]
    outcome = {}
    for variant in VARIANTS:
        saved = folder / f"{variant}-epoch={EPOCHS // 2 - 1}.ckpt"
        of_this_run = folder / f"{what}-{workers}"
        outcome[variant] = fit(variant, *((of_this_run, saved) if what == "resume" else (folder,)))
    torch.save(outcome, folder / f"{what}-{worker}-of-{workers}.pt")
