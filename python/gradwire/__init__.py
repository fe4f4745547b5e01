"""Gradient compression for data-parallel training with PyTorch.

    ddp = torch.nn.parallel.DistributedDataParallel(model)
    gw = gradwire.attach(ddp, "acpsgd", rank=32)

The training loop does not change.
"""

from gradwire import _load  # noqa: F401  (before anything that needs the compiled module)
from gradwire._attach import attach
from gradwire._compressor import Compressor
from gradwire._core import Attachment, __version__, methods
from gradwire._plan import plan
from gradwire._state import merge, save
from gradwire._types import CodeRatios, Counts, MethodDescription, OptionDescription, Stats

__all__ = [
    "Attachment",
    "CodeRatios",
    "Compressor",
    "Counts",
    "MethodDescription",
    "OptionDescription",
    "Stats",
    "__version__",
    "attach",
    "merge",
    "methods",
    "plan",
    "save",
]
