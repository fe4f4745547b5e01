"""gradwire for Lightning.

    trainer = Trainer(strategy="ddp", callbacks=[GradwireCallback("acpsgd", rank=32)], ...)

docs/ecosystem.md has a complete script.
"""

from __future__ import annotations

from typing import Any

from torch.nn.parallel import DistributedDataParallel

from gradwire._attach import attach
from gradwire._checkpoint import State, gather_states, load_from_all, warn_of_missing_state
from gradwire._core import Attachment

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError:  # the same under its other name
    from pytorch_lightning import Callback, LightningModule, Trainer

_KEY = "gradwire"


class GradwireCallback(Callback):
    """Lets the gradients travel by ``method``; arguments as for :func:`gradwire.attach`.

    The GradScaler of ``precision="16-mixed"`` is found. Checkpoints hold the states of all
    workers: a run resumed with ``ckpt_path`` is the one that was never stopped, and the number of
    workers may change.
    """

    def __init__(self, method: str, **options: Any) -> None:
        self.method = method
        self.options = options
        self.gw: Attachment | None = None
        """What ``attach`` returned, once ``fit`` has begun."""
        self._ddp: DistributedDataParallel | None = None
        self._checkpoint: str | None = None
        self._states: list[State] | None = None

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        ddp = trainer.strategy.model
        if not isinstance(ddp, DistributedDataParallel):
            raise RuntimeError(
                "gradwire compresses the gradients of DistributedDataParallel, which the strategy "
                f"{type(trainer.strategy).__name__} does not use; give Trainer(strategy='ddp')"
            )
        scaler = getattr(trainer.precision_plugin, "scaler", None)
        self.gw = attach(ddp, self.method, **{"grad_scaler": scaler, **self.options})
        self._ddp = ddp  # for a checkpoint after fit, where Lightning drops it
        if self._states is not None:
            load_from_all(self.gw, self._states, ddp.process_group)
        elif self._checkpoint is not None:
            warn_of_missing_state(self._checkpoint, ddp.process_group)
        self._states = self._checkpoint = None

    def on_save_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        # Every worker comes here; what worker 0 has is written.
        if self.gw is not None and self._ddp is not None:
            checkpoint[_KEY] = gather_states(self.gw, self._ddp.process_group)

    def on_load_checkpoint(
        self, trainer: Trainer, pl_module: LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        # Before DDP is made. A test or a prediction from a checkpoint resumes nothing.
        if trainer.state.fn == "fit":
            self._states = checkpoint.get(_KEY)
            self._checkpoint = str(trainer.ckpt_path)
