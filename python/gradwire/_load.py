"""Loads the compiled module, or says why it cannot serve the torch that is here."""

import torch  # loads the libraries that _core needs

_CURE = (
    "install gradwire again into this environment, from its sources: "
    "pip install --no-build-isolation --no-deps --force-reinstall ."
)

try:
    from gradwire import _core
except ImportError as error:
    raise ImportError(
        f"gradwire's compiled module cannot be loaded with torch {torch.__version__}: it serves "
        f"only the version it was built for; {_CURE}"
    ) from error

if _core.torch_version != torch.__version__.partition("+")[0]:
    raise ImportError(
        f"gradwire was built for torch {_core.torch_version}, and this is torch "
        f"{torch.__version__}; {_CURE}"
    )
