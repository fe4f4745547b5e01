"""The ``gradwire`` command of an installed package: hands over to the program beside this file."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "gradwire"
    # For `compare --report`, which draws with Python.
    os.environ.setdefault("GRADWIRE_PYTHON", sys.executable)
    os.execv(program, [str(program), *sys.argv[1:]])
