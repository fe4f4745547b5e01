"""gradwire.Compressor: the explicit object, for loops that synchronise gradients by themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
import torch.distributed as dist

from gradwire import _core
from gradwire._request import further_group, make_request
from gradwire._types import OptionValue


class Compressor(_core.Compressor):
    """Compresses and averages named gradients over the workers of a process group.

    It needs no DistributedDataParallel and no autograd. Make it once on every worker::

        c = gradwire.Compressor(model.named_parameters(), "topk", density=0.01)
        ...
        c.all_reduce({name: p.grad for name, p in model.named_parameters()})
    """

    def __init__(
        self,
        named_parameters: Iterable[tuple[str, torch.Tensor]],
        method: str,
        *,
        process_group: dist.ProcessGroup | None = None,
        start_after: int = 0,
        grad_scaler: torch.amp.GradScaler | None = None,
        skip: Iterable[str] = (),
        per_parameter: Mapping[str, Mapping[str, OptionValue]] | None = None,
        handshake_timeout: float = 300.0,
        **options: OptionValue,
    ) -> None:
        """Agree with the other workers on method, options and parameters.

        Args:
            named_parameters: what ``model.named_parameters()`` gives. Those that require no
                gradient are left out.
            method: a name out of ``gradwire.methods()`` other than ``auto``, which needs DDP.
            process_group: the group to communicate in; the default group by default.

        The other arguments are those of :func:`gradwire.attach`.

        Raises:
            ValueError: an unknown method or option, or a value out of range.
            RuntimeError: the workers do not agree.
        """
        group = dist.group.WORLD if process_group is None else process_group
        if not isinstance(group, dist.ProcessGroup):
            raise RuntimeError(
                "gradwire.Compressor communicates in a process group; call "
                "torch.distributed.init_process_group first, or pass process_group"
            )
        try:
            parameters = [
                (name.replace("_orig_mod.", ""), parameter, False)
                for name, parameter in named_parameters
                if parameter.requires_grad
            ]
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
            _core.announce_failure(group, str(error))
            raise
        device = parameters[0][1].device if parameters else torch.device("cpu")
        super().__init__(group, parameters, request, lambda: further_group(group, device))

    def start(self, gradients: Mapping[str, torch.Tensor]) -> None:
        """Encode these gradients and send them on their way; leave them alone until ``finish``.

        A step may consist of several parts. All workers start the same parts in the same order.

        Raises:
            ValueError: a name, a shape or a type that the model does not have.
        """
        super().start(dict(gradients))

    def finish(self) -> None:
        """Wait for all parts of the step: their tensors then hold the mean over the workers."""
        super().finish()

    def all_reduce(self, gradients: Mapping[str, torch.Tensor]) -> None:
        """``start`` and ``finish`` in one: a step of one part."""
        self.start(gradients)
        self.finish()
