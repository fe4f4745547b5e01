"""Gradient compression for data-parallel training with PyTorch.

    ddp = torch.nn.parallel.DistributedDataParallel(model)
    gw = gradwire.attach(ddp, "acpsgd", rank=4)

The training loop does not change.
"""

import torch  # noqa: F401  (loads the libraries that _core needs)

from gradwire._attach import Attachment, attach
from gradwire._core import __version__, methods
from gradwire._plan import plan
from gradwire._state import merge, save

__all__ = ["Attachment", "__version__", "attach", "merge", "methods", "plan", "save"]
