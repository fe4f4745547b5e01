"""gradwire.plan: the performance model behind ``gradwire plan``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from gradwire import _core

# A JSON object, or the file that holds it.
_Described = Mapping[str, Any] | str | os.PathLike[str]


def plan(
    *,
    model: str | None = None,
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
    its ``--json`` writes.

    Args:
        model: a built-in model, with ``compute``.
        compute: time of forward and backward on one worker: seconds, or a text such as "180ms".
        profile: in place of both, what ``gw.profile()`` returned, or a file with it.
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
        rank: of the factors of low-rank methods.
        min_ratio: low-rank methods compress a matrix if it gets smaller by this.
        density: part of the elements that travel.
        adacomp_conv_rate: compression rate of adacomp for convolutions.
        adacomp_dense_rate: compression rate of adacomp for everything else.
        options: these and any others that ``gradwire plan --help`` lists, by name.

    Raises:
        ValueError: an argument is missing or wrong, or two exclude one another.
    """
    _exclude("profile", profile, model=model, compute=compute)
    _exclude("link", link, latency=latency, all_reduce=all_reduce)
    request = {
        "model": model,
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
        "rank": rank,
        "min_ratio": min_ratio,
        "density": density,
        "adacomp_conv_rate": adacomp_conv_rate,
        "adacomp_dense_rate": adacomp_dense_rate,
        **(options or {}),
    }
    given = {name: value for name, value in request.items() if value is not None}
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


def _read(name: str, described: _Described | None) -> Mapping[str, Any] | None:
    if described is None or isinstance(described, Mapping):
        return described
    try:
        with open(described, encoding="utf-8") as file:
            content: dict[str, Any] = json.load(file)
            return content
    except OSError as error:
        raise ValueError(f"cannot read the {name} {os.fspath(described)}: {error}") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"{os.fspath(described)} is not JSON: {error}") from error
