"""Where the programs under test are."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("GRADWIRE_BUILD", ROOT / "build/dev"))
COMMAND = BUILD / "bin/gradwire"

# If GRADWIRE_BUILD names a build, a missing program is a failure.
needs_build = pytest.mark.skipif(
    "GRADWIRE_BUILD" not in os.environ and not COMMAND.exists(),
    reason=f"GRADWIRE_BUILD is unset and {COMMAND} is not built",
)
