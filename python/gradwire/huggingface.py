"""gradwire for Hugging Face: the Trainer of transformers, and Accelerate.

    trainer = Trainer(...)
    attach_trainer(trainer, "acpsgd", rank=32)

    model, optimizer = accelerator.prepare(model, optimizer)
    gw = attach_prepared(accelerator, model, "acpsgd", rank=32)

docs/ecosystem.md has complete scripts.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.parallel import DistributedDataParallel

from gradwire._attach import _attachments, attach
from gradwire._checkpoint import load_beside, save_beside
from gradwire._core import Attachment

try:
    from transformers import TrainerCallback
except ImportError:  # Accelerate alone: nobody has a Trainer to give
    TrainerCallback = object

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments


def attach_prepared(
    accelerator: Accelerator, model: torch.nn.Module, method: str, **options: Any
) -> Attachment:
    """Let the gradients of what ``accelerator.prepare`` made of a model travel by ``method``.

    Call it before the first backward; arguments as for :func:`gradwire.attach`. The accelerator's
    GradScaler is found. From here on ``accelerator.save_state`` and ``load_state`` save and load
    the states of all workers too.
    """
    ddp = _ddp_in(model, "accelerator.prepare")
    gw = attach(ddp, method, **{"grad_scaler": accelerator.scaler, **options})
    group = ddp.process_group
    accelerator.register_save_state_pre_hook(
        lambda models, weights, folder: save_beside(gw, folder, group)
    )
    accelerator.register_load_state_pre_hook(lambda models, folder: load_beside(gw, folder, group))
    return gw


def attach_trainer(trainer: Trainer, method: str, **options: Any) -> GradwireCallback:
    """Let the gradients of a Trainer's model travel by ``method``.

    Call it before ``trainer.train``; arguments as for :func:`gradwire.attach`. The GradScaler is
    found. Every worker's state is saved with each checkpoint, and loaded from the one that
    ``trainer.train`` is told to resume from.
    """
    callback = GradwireCallback(trainer, method, options)
    trainer.add_callback(callback)
    train = trainer.train

    # No event of a callback tells where the run is resumed from.
    @functools.wraps(train)
    def train_from(resume_from_checkpoint: str | bool | None = None, **others: Any) -> Any:
        callback.resumed_from = resume_from_checkpoint
        return train(resume_from_checkpoint, **others)

    trainer.train = train_from
    return callback


class GradwireCallback(TrainerCallback):
    """What :func:`attach_trainer` adds to a Trainer."""

    def __init__(self, trainer: Trainer, method: str, options: dict[str, Any]) -> None:
        self.gw: Attachment | None = None
        """What ``attach`` returned, once the training has begun."""
        self.resumed_from: str | bool | None = None
        self._trainer = trainer
        self._method = method
        self._options = options

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        ddp = _ddp_in(self._trainer.model_wrapped, "Trainer")
        # A second train() goes on with the same DDP.
        self.gw = _attachments.get(ddp) or attach(
            ddp,
            self._method,
            **{"grad_scaler": self._trainer.accelerator.scaler, **self._options},
        )
        if self.resumed_from:
            last = _checkpoint(args, state)  # what True means
            folder = last if self.resumed_from is True else Path(self.resumed_from)
            load_beside(self.gw, folder, ddp.process_group)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        assert self.gw is not None
        if not args.save_only_model:
            ddp = _ddp_in(self._trainer.model_wrapped, "Trainer")
            save_beside(self.gw, _checkpoint(args, state), ddp.process_group)


def _checkpoint(args: TrainingArguments, state: TrainerState) -> Path:
    """The folder of the Trainer's checkpoint after this step."""
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"


def _ddp_in(model: torch.nn.Module, maker: str) -> DistributedDataParallel:
    ddp = getattr(model, "_orig_mod", model)  # what torch.compile was given
    if not isinstance(ddp, DistributedDataParallel):
        raise RuntimeError(
            "gradwire compresses the gradients of DistributedDataParallel, and "
            f"{maker} made {type(ddp).__name__}; start several workers with torchrun or accelerate "
            "launch, without FSDP or DeepSpeed"
        )
    return ddp
