"""The states of all workers in one checkpoint, for the trainers of others."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from gradwire._core import Attachment
from gradwire._state import merge, save

_log = logging.getLogger("gradwire")

State = Mapping[str, Any]


def gather_states(gw: Attachment, group: dist.ProcessGroup) -> list[State]:
    """Every worker's state, on worker 0; elsewhere this worker's alone."""
    state = {
        name: value.cpu() if isinstance(value, torch.Tensor) else value
        for name, value in gw.state_dict().items()
    }
    states: list[State] = [state]
    # One after the other: a gather would hold all of them in the memory of worker 0's device.
    for sender in range(1, dist.get_world_size(group)):
        if dist.get_rank(group) == sender:
            dist.send_object_list([state], group=group, group_dst=0)
        elif dist.get_rank(group) == 0:
            received: list[Any] = [None]
            dist.recv_object_list(received, group=group, group_src=sender)
            states += received
    return states


def load_from_all(gw: Attachment, states: Sequence[State], group: dist.ProcessGroup) -> None:
    """Load this worker's state out of those of all workers, merged if they were more or fewer."""
    fits = len(states) == dist.get_world_size(group)
    gw.load_state_dict(dict(states[dist.get_rank(group)]) if fits else merge(states))


def save_beside(gw: Attachment, folder: str | os.PathLike[str], group: dist.ProcessGroup) -> None:
    """Write this worker's state into a checkpoint that is a folder."""
    save(gw.state_dict(), _file(folder, dist.get_rank(group)))


def load_beside(gw: Attachment, folder: str | os.PathLike[str], group: dist.ProcessGroup) -> None:
    """Load what :func:`save_beside` wrote, merged if the workers were more or fewer."""
    worker, workers = dist.get_rank(group), dist.get_world_size(group)
    # A worker that is new in a larger world finds out from worker 0's how many there were.
    known = next((i for i in (worker, 0) if _file(folder, i).exists()), None)
    if not _known_to_all(known is not None, folder, group):
        warn_of_missing_state(folder, group)
        return
    assert known is not None
    state = _load(_file(folder, known))
    saved_by = state[f"worker{known}/workers"]
    if saved_by != workers:
        state = merge(_load(_file(folder, i)) for i in range(saved_by))
    elif known != worker:
        state = _load(_file(folder, worker))  # raises: it is not there
    gw.load_state_dict(state)


def warn_of_missing_state(checkpoint: object, group: dist.ProcessGroup) -> None:
    if dist.get_rank(group) == 0:
        _log.warning(
            "%s was saved without gradwire: what the workers keep back starts from zero", checkpoint
        )


def _file(folder: str | os.PathLike[str], worker: int) -> Path:
    return Path(folder) / f"gradwire-worker{worker}.pt"


def _load(file: Path) -> dict[str, Any]:
    state: dict[str, Any] = torch.load(file, map_location="cpu", weights_only=True)
    return state


def _known_to_all(known: bool, folder: str | os.PathLike[str], group: dist.ProcessGroup) -> bool:
    """Whether all workers have a state to load; RuntimeError if only some have."""
    answers: list[Any] = [None] * dist.get_world_size(group)
    dist.all_gather_object(answers, known, group=group)
    if any(answers) and not all(answers):
        raise RuntimeError(
            f"worker {answers.index(False)} finds no state of gradwire in {folder}, and others do; "
            "let all workers see the same folder, or copy its gradwire-worker*.pt to every node"
        )
    return all(answers)
