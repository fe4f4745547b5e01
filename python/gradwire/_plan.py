"""gradwire.plan: the performance model behind ``gradwire plan``."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

from gradwire import _core

# A JSON object, or the file that holds it.
_Described = Mapping[str, Any] | str | os.PathLike[str]
# A model, its named_parameters(), or shapes by name; or a file, as for the command.
_Parameters = (
    torch.nn.Module
    | Iterable[tuple[str, torch.Tensor]]
    | Mapping[str, torch.Tensor | Sequence[int]]
    | str
    | os.PathLike[str]
)


def plan(
    *,
    model: str | None = None,
    parameters: _Parameters | None = None,
    compute: float | str | None = None,
    profile: _Described | None = None,
    link: _Described | None = None,
    workers: int | Iterable[int] | None = None,
    bandwidth: str | Iterable[str] | None = None,
    latency: float | str | None = None,
    workers_per_node: int | None = None,
    node_bandwidth: str | None = None,
    node_latency: float | str | None = None,
    all_reduce: str | None = None,
    device: str | None = None,
    device_memory_gbs: float | None = None,
    device_tflops: float | None = None,
    methods: str | Iterable[str] | None = None,
    delayed: bool | None = None,
    rank: int | None = None,
    min_ratio: float | None = None,
    density: float | None = None,
    adacomp_conv_rate: float | None = None,
    adacomp_dense_rate: float | None = None,
    options: Mapping[str, float] | None = None,
) -> dict[str, Any]:
    """Predict the time of a training iteration with each method, over workers x bandwidth.

    It computes and measures nothing; docs/plan.md describes the model. Every argument is an option
    of the command ``gradwire plan`` and has the same default there, and what is returned is what
    its ``--json`` writes: ``advice`` in a sentence, the names ``advised``, and of each of the
    ``methods`` its class of loss and the line of code that uses it.

    Args:
        model: a built-in model, with ``compute``.
        parameters: in its place any model, its ``named_parameters()``, or a mapping of shapes by
            name, in the order of the model's definition; or a file as for the command.
        compute: time of forward and backward on one worker: seconds, or a text such as "180ms".
            With a profile it scales that profile's compute times.
        profile: in place of all three, what ``gw.profile()`` returned, or a file with it.
        link: what ``gradwire probe --json`` wrote, or the file: sets the latency, how fast each
            collective is, and, unless given, the workers and the bandwidth.
        workers: one number or several.
        bandwidth: of each node's link to the others, one or several, such as "10gbit".
        latency: of a message between nodes: seconds, or a text such as "20us".
        workers_per_node: workers that share a node and its link.
        node_bandwidth: of each worker's link inside its node.
        node_latency: of a message inside a node.
        all_reduce: "ring", "tree" or "fastest".
        device: "cpu" or "gpu", for methods whose rates the profile does not have.
        device_memory_gbs: its memory bandwidth in GB/s.
        device_tflops: its fp32 arithmetic in Tflop/s.
        methods: those to compare; all by default.
        delayed: whether to advise methods that send a part of the gradient steps later, too.
        rank: of the factors of low-rank methods.
        min_ratio: low-rank methods compress a matrix if it gets smaller by this.
        density: part of the elements that travel.
        adacomp_conv_rate: compression rate of adacomp for convolutions.
        adacomp_dense_rate: compression rate of adacomp for everything else.
        options: these and any others that ``gradwire plan --help`` lists, by name.

    Raises:
        ValueError: an argument is missing or wrong, or two exclude one another.
    """
    _exclude("profile", profile, model=model, parameters=parameters)
    _exclude("parameters", parameters, model=model)
    _exclude("link", link, latency=latency, all_reduce=all_reduce)
    request = {
        "model": model,
        "parameters": _shapes(parameters),
        "compute": _text(compute),
        "profile": _read("profile", profile),
        "link": _read("link", link),
        "workers": _list(workers),
        "bandwidth": _list(bandwidth),
        "latency": _text(latency),
        "workers_per_node": workers_per_node,
        "node_bandwidth": node_bandwidth,
        "node_latency": _text(node_latency),
        "all_reduce": all_reduce,
        "device": device,
        "device_memory_gbs": device_memory_gbs,
        "device_tflops": device_tflops,
        "methods": _list(methods),
        "delayed": delayed,
        "rank": rank,
        "min_ratio": min_ratio,
        "density": density,
        "adacomp_conv_rate": adacomp_conv_rate,
        "adacomp_dense_rate": adacomp_dense_rate,
        **(options or {}),
    }
    given = {name: value for name, value in request.items() if value is not None}
    for name, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"[plan] {name} must be a finite number; got {value}")
    return _core.plan(json.dumps(given, allow_nan=False))


def _exclude(name: str, value: Any, **others: Any) -> None:
    for other, given in others.items():
        if value is not None and given is not None:
            raise ValueError(f"{name} and {other} exclude one another; got both")


def _text(seconds: float | str | None) -> str | None:
    return repr(seconds) if isinstance(seconds, int | float) else seconds


def _list(values: Any) -> list[Any] | None:
    """One or several. Whether they are what they should be is checked where the command's are."""
    if values is None:
        return None
    return (
        list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    )


def _shapes(parameters: _Parameters | None) -> Any:
    """Those that have a gradient, as the command reads them from a file."""
    if parameters is None:
        return None
    if isinstance(parameters, str | os.PathLike):
        return _load("parameters", parameters)
    if isinstance(parameters, torch.nn.Module):
        parameters = parameters.named_parameters()
    named = parameters.items() if isinstance(parameters, Mapping) else parameters
    shapes = []
    for name, each in named:
        if not isinstance(each, torch.Tensor):
            shapes.append({"name": name, "shape": list(each)})
        elif each.requires_grad:
            shapes.append({"name": name, "shape": list(each.shape)})
    return shapes


def _read(name: str, described: _Described | None) -> Any:
    if described is None or isinstance(described, Mapping):
        return described
    return _load(name, described)


def _load(name: str, described: str | os.PathLike[str]) -> Any:
    try:
        with open(described, encoding="utf-8") as file:
            return json.load(file)
    except OSError as error:
        raise ValueError(f"cannot read the {name} {os.fspath(described)}: {error}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{os.fspath(described)} is not JSON: {error}") from error
