"""The types of the compiled module; the words are in python/bindings.cpp, for ``help()``."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch._C._distributed_c10d import Logger, ProcessGroup, Reducer

from gradwire._types import MethodDescription, OptionValue, Stats

__version__: str
torch_version: str

def methods() -> dict[str, MethodDescription]: ...

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
    def state_dict(self) -> dict[str, Any]: ...
    def load_state_dict(self, state: dict[str, Any], /) -> None: ...
    def stats(self) -> Stats: ...
    def profile(self) -> dict[str, Any]: ...
    def before_step(self) -> str: ...
    def divide_by_active_workers(self, value: bool, /) -> None: ...

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
def set_sums_by_all_gather(value: bool, /) -> None: ...
