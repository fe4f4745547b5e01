"""gradwire.attach: checks what only Python can see, then hands over to C++."""

from __future__ import annotations

import functools
import logging
import weakref
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from gradwire import _core
from gradwire._core import Attachment
from gradwire._request import further_group, make_request
from gradwire._types import OptionValue

_log = logging.getLogger("gradwire")

# Not an attribute of the model: it would keep the model from being pickled or copied.
_attachments: weakref.WeakKeyDictionary[DistributedDataParallel, Attachment] = (
    weakref.WeakKeyDictionary()
)


class _Attached(DistributedDataParallel):
    """What an attached DDP is besides what it was: it tells which division ``join`` was asked for,
    as DDP does not tell hooks."""

    def join_hook(self, **kwargs: Any) -> Any:
        if self in _attachments:
            by_initial = kwargs.get("divide_by_initial_world_size", True)
            _attachments[self].divide_by_active_workers(not by_initial)
        return super().join_hook(**kwargs)  # type: ignore[no-untyped-call]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy is not attached: it is of the class that this model had before."""
        reduced: Any = super().__reduce_ex__(protocol)
        make, arguments, *rest = reduced
        attached = type(self)
        before = attached.__bases__[1]
        if make.__name__ == "__newobj__":  # pickle lets it make the class of the original only
            make = _new
        return make, tuple(before if each is attached else each for each in arguments), *rest


def _new(kind: type, *arguments: Any) -> Any:
    return kind.__new__(kind, *arguments)


@functools.cache
def _attached(kind: type[DistributedDataParallel]) -> type[DistributedDataParallel]:
    """_Attached and ``kind``, which may be the user's own, in one, under the name of ``kind``."""
    if issubclass(kind, _Attached):
        return kind
    return type(kind.__name__, (_Attached, kind), {"__module__": kind.__module__})


def attach(
    ddp: DistributedDataParallel,
    method: str,
    *,
    process_group: dist.ProcessGroup | None = None,
    start_after: int = 0,
    grad_scaler: torch.amp.GradScaler | None = None,
    skip: Iterable[str] = (),
    per_parameter: Mapping[str, Mapping[str, OptionValue]] | None = None,
    handshake_timeout: float = 300.0,
    **options: OptionValue,
) -> Attachment:
    """Let the gradients of ``ddp`` travel by ``method``.

    Call it once on every worker, after constructing ``ddp`` and before the first backward. The
    options of each method are listed by :func:`gradwire.methods`.

    Args:
        ddp: the model, wrapped in PyTorch's DistributedDataParallel.
        method: a name out of ``gradwire.methods()``.
        process_group: the group to communicate in; that of ``ddp`` by default.
        start_after: so many steps of plain all-reduce first.
        grad_scaler: the GradScaler of the training loop, if there is one: what a method keeps back
            follows its changing scale.
        skip: names of parameters (glob patterns) that travel uncompressed.
        per_parameter: options, or another ``method``, by name of the parameter (glob patterns; the
            first match wins).
        handshake_timeout: how many seconds to wait for the slowest worker.

    Raises:
        ValueError: an unknown method or option, or a value out of range.
        RuntimeError: ``ddp`` cannot be attached to, or the workers do not agree.
    """
    group = _group_of(ddp, process_group)
    try:
        _refuse_misuse(ddp)
        skip = skip if isinstance(skip, str) else list(skip or ())
        request = make_request(
            method,
            process_group,
            options,
            start_after=start_after,
            grad_scaler=grad_scaler,
            skip=skip,
            per_parameter=per_parameter,
            handshake_timeout=handshake_timeout,
        )
    except Exception as error:
        # Tell the other workers, which would wait for this one until their timeout.
        if group is not None:
            _core.announce_failure(group, str(error))
        raise
    assert group is not None  # every DDP has one
    attachment = _core.attach(
        ddp.reducer,
        group,
        _parameters_of(ddp),
        request,
        lambda: further_group(group, ddp.device),
        _bucket_caps(ddp),
        ddp.logger,
    )
    _attachments[ddp] = attachment
    ddp.__class__ = _attached(type(ddp))
    # A copy of a model has the hooks of the original.
    if method == "auto" and _before_forward not in ddp._forward_pre_hooks.values():
        ddp.register_forward_pre_hook(_before_forward)
    if group.rank() == 0:
        _warn_of_no_effect(attachment, method, [*skip, *(per_parameter or {})])
    return attachment


def _warn_of_no_effect(attachment: Attachment, method: str, patterns: list[str]) -> None:
    plan = attachment.stats()["plan"]
    for pattern in patterns:
        # Python knows no backslash in a pattern; what it hides cannot be told here.
        if "\\" not in pattern and not any(fnmatchcase(name, pattern) for name in plan):
            _log.warning(
                "gradwire.attach: no parameter matches %r; they are named as in the module inside "
                "DDP: %s, ...",
                pattern,
                next(iter(plan)),
            )
    if method not in ("allreduce", "auto") and set(plan.values()) == {"uncompressed"}:
        _log.warning("gradwire.attach: %s finds nothing to compress in this model", method)


def _before_forward(ddp: DistributedDataParallel, _: Any) -> None:
    """Where ``auto`` decides: every worker comes here before each of its steps. Not so in an
    evaluation, which one worker may do alone, nor once a worker has run out of data (``join``)."""
    is_step = torch.is_grad_enabled() and ddp.training and ddp.require_backward_grad_sync
    if is_step and not ddp._join_config.enable and ddp in _attachments:
        message = _attachments[ddp].before_step()
        if message:
            _log.warning(message)


def _group_of(ddp: Any, process_group: dist.ProcessGroup | None) -> dist.ProcessGroup | None:
    if isinstance(process_group, dist.ProcessGroup):
        return process_group
    own = getattr(ddp, "process_group", None)
    if isinstance(own, dist.ProcessGroup):
        return own
    return dist.group.WORLD if dist.is_initialized() else None


def _parameters_of(ddp: DistributedDataParallel) -> list[tuple[str, torch.Tensor, bool]]:
    """Names as in the user's own model, and whether DDP expects the gradient to be sparse."""
    sparse = {
        id(module.weight)
        for module in ddp.module.modules()
        if isinstance(module, torch.nn.Embedding | torch.nn.EmbeddingBag) and module.sparse
    }
    return [
        (name.replace("_orig_mod.", ""), parameter, id(parameter) in sparse)
        for name, parameter in ddp.module.named_parameters()
        if name not in ddp.parameters_to_ignore
    ]


def _bucket_caps(ddp: DistributedDataParallel) -> list[int]:
    """What the Reducer will fill its buckets up to when it makes them anew."""
    config = ddp._bucket_config
    return list(config.per_bucket_bytes_caps) or [
        config.first_bucket_bytes_cap,
        config.bucket_bytes_cap,
    ]


def _refuse_misuse(ddp: Any) -> None:
    """Raise a RuntimeError, naming cause and cure, for what would train wrongly or not at all."""
    if not isinstance(ddp, DistributedDataParallel):
        kind = type(ddp).__name__
        if "FSDP" in kind or "FullySharded" in kind:
            raise RuntimeError(
                "gradwire.attach cannot compress FSDP, whose gradients are scattered and not "
                "all-reduced; wrap the model in DistributedDataParallel instead"
            )
        raise RuntimeError(
            f"gradwire.attach takes a model wrapped in DistributedDataParallel; got {kind}. "
            "Attach to the wrapper, not to the module inside it or to what torch.compile made of it"
        )
    logged = ddp._get_ddp_logging_data()  # type: ignore[no-untyped-call]
    for found, text in (
        (
            ddp in _attachments,
            "this DDP model has been attached already; make a new "
            "DistributedDataParallel to change the method",
        ),
        (
            ddp._use_python_reducer,
            "torch._dynamo.config.optimize_ddp is 'python_reducer', which ignores every hook on "
            "the gradients; set it to True or False before constructing DistributedDataParallel",
        ),
        (
            ddp.mixed_precision is not None,
            "DDP's mixed_precision installs a hook of its own; use torch.autocast instead",
        ),
        (
            any(hasattr(p, "_in_backward_optimizers") for p in ddp._module_parameters),
            "an optimizer in backward steps before the gradients are reduced; "
            "step the optimizer after backward instead",
        ),
        (
            bool(ddp._delay_all_reduce_params),
            "delay_all_reduce_named_params takes gradients out of DDP's buckets; "
            "construct DistributedDataParallel without it",
        ),
        (
            bool(ddp._comm_hooks) or bool(logged.get("comm_hook")),
            "this DDP model has a communication hook already; do not call register_comm_hook on it",
        ),
        (
            any(ddp.reducer.get_backward_stats()),
            "a backward has run already on this DDP model; attach before the first one",
        ),
    ):
        if found:
            raise RuntimeError(f"gradwire.attach: {text}")
