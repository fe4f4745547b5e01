"""The request that attach() and Compressor() hand to C++, checked as far as only Python can."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from gradwire import _core
from gradwire._types import OptionValue


def make_request(
    method: str,
    process_group: dist.ProcessGroup | None,
    options: Mapping[str, OptionValue],
    *,
    start_after: int,
    grad_scaler: torch.amp.GradScaler | None,
    skip: Iterable[str],
    per_parameter: Mapping[str, Mapping[str, OptionValue]] | None,
    handshake_timeout: float,
) -> _core.Request:
    """ValueError for a value of the wrong type; what is out of range is refused in C++."""
    if process_group is not None:
        _checked(process_group, dist.ProcessGroup, "process_group")
    return _core.Request(
        method=_checked(method, str, "method"),
        options={name: _option(name, value) for name, value in options.items()},
        start_after=_checked(start_after, int, "start_after"),
        skip=_patterns(skip),
        per_parameter=_overrides(per_parameter),
        handshake_timeout=_seconds(handshake_timeout),
        loss_scale=_loss_scale_of(grad_scaler),
    )


def further_group(group: dist.ProcessGroup, device: torch.device) -> dist.ProcessGroup:
    """Another group of the same workers, made by them alone: others may be busy elsewhere."""
    further: dist.ProcessGroup = dist.new_group(
        dist.get_process_group_ranks(group),
        timeout=_timeout_of(group, device),
        backend=dist.get_backend(group),
        use_local_synchronization=True,
    )
    return further


def _timeout_of(group: dist.ProcessGroup, device: torch.device) -> timedelta | None:
    """None, for torch's default, where the backend has no options or no timeout among them."""
    try:
        return group._get_backend(device).options._timeout
    except (AttributeError, RuntimeError):
        return None


def _loss_scale_of(
    scaler: torch.amp.GradScaler | None,
) -> Callable[[], torch.Tensor | None] | None:
    if scaler is None:
        return None
    if not isinstance(scaler, torch.amp.GradScaler):
        raise ValueError(f"grad_scaler must be a torch.amp.GradScaler; got {scaler!r}")
    # It has no scale before its first use; from then on it changes the same tensor.
    return (lambda: scaler._scale) if scaler.is_enabled() else None


def _checked(value: Any, kind: type, name: str) -> Any:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f"{name} must be of type {kind.__name__}; got {value!r}")
    return value


def _option(name: str, value: Any) -> OptionValue:
    if not isinstance(value, bool | int | float | str):
        raise ValueError(f"{name} must be a number, a string, True or False; got {value!r}")
    return value


def _seconds(value: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    # Some 30 years; the clocks, which count nanoseconds, hold 292.
    if not is_number or not 0 < value < 1e9:
        raise ValueError(
            f"handshake_timeout must be a number of seconds above 0 and below 1e9; got {value!r}"
        )
    return value


def _patterns(skip: Iterable[str] | None) -> list[str]:
    if skip is None:
        return []
    if isinstance(skip, str):
        raise ValueError(f"skip must be a list of patterns; got the string {skip!r}")
    return [_checked(pattern, str, "a pattern in skip") for pattern in skip]


def _overrides(
    per_parameter: Mapping[str, Mapping[str, OptionValue]] | None,
) -> list[tuple[str, dict[str, OptionValue]]]:
    entries = _checked({} if per_parameter is None else per_parameter, Mapping, "per_parameter")
    overrides = []
    for pattern, entry in entries.items():
        _checked(pattern, str, "a pattern in per_parameter")
        _checked(entry, Mapping, f"per_parameter[{pattern!r}]")
        overrides.append((pattern, {name: _option(name, value) for name, value in entry.items()}))
    return overrides
