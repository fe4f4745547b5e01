"""What to do with the states of attachments outside of training."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch

from gradwire import _core


def merge(states: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Make the states of all workers into the one that every worker of another world loads.

    What the workers have kept back so far is not lost: its mean over the workers is the same
    before and after. The states are read one at a time, so ``states`` may load them as it goes.

    Raises:
        ValueError: the states do not belong together, or some are missing.
    """
    merger = _core.StateMerger()
    for state in states:
        merger.add(dict(state))
    return merger.merged()


def save(checkpoint: Any, path: str | os.PathLike[str]) -> None:
    """``torch.save`` that leaves either the old file or the new one, whole, whatever happens.

    The file is written beside ``path``, forced to the disk and only then given its name.
    """
    path = Path(path)
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
