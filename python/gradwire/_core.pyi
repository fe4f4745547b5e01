"""The compiled module: converts values and hands over to C++ (python/bindings.cpp)."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import Logger, ProcessGroup, Reducer

from gradwire._types import MethodDescription, OptionValue, Stats

__version__: str
torch_version: str

def methods() -> dict[str, MethodDescription]:
    """Every method by its name, with a summary, its options, their defaults and rules."""

class Request:
    def __init__(
        self,
        *,
        method: str,
        options: Mapping[str, OptionValue],
        start_after: int,
        skip: Sequence[str],
        per_parameter: Sequence[tuple[str, Mapping[str, OptionValue]]],
        handshake_timeout: float,
        loss_scale: Callable[[], torch.Tensor | None] | None,
    ) -> None: ...

class Attachment:
    """What :func:`gradwire.attach` returns: the handle to a model's compression."""

    def state_dict(self) -> dict[str, Any]:
        """What this worker has to save for an exact resume: tensors, numbers and strings.

        For calls between steps. Every key begins with ``worker<i>/``.

        Raises:
            RuntimeError: a step is under way, or failed.
        """

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        """Restore what ``state_dict`` gave on this worker, or what ``gradwire.merge`` made.

        After ``attach`` and before the first forward. A state that does not fit changes nothing.

        Raises:
            ValueError: the state does not fit; the message names the difference.
        """

    def stats(self) -> Stats:
        """What this worker has encoded, sent and waited for since it was attached."""

    def profile(self) -> dict[str, Any]:
        """What the planner needs to know of this job: see docs/plan.md, *Recording a job*.

        Raises:
            RuntimeError: there were no complete steps yet.
        """

    def before_step(self) -> str:
        """For ``gradwire.attach``: where ``auto`` decides. One line of text if it did."""

    def divide_by_active_workers(self, value: bool, /) -> None:
        """For ``gradwire.attach``: which division DDP's ``join`` was asked for."""

class StateMerger:
    def __init__(self) -> None: ...
    def add(self, state: dict[str, Any], /) -> None: ...
    def merged(self) -> dict[str, Any]: ...

def attach(
    reducer: Reducer,
    group: ProcessGroup,
    parameters: Sequence[tuple[str, torch.Tensor, bool]],
    request: Request,
    make_group: Callable[[], ProcessGroup],
    bucket_caps: Sequence[int],
    logger: Logger | None,
    /,
) -> Attachment: ...
def plan(request: str, /) -> dict[str, Any]: ...
def announce_failure(group: ProcessGroup, reason: str, /) -> None: ...
