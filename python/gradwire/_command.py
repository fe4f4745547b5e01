"""The ``gradwire`` command of an installed package: hands over to the program beside this file."""

import os
import sys
from pathlib import Path

import torch


def main() -> None:
    program = Path(__file__).parent / "bin" / "gradwire"
    # For `compare --report`, which draws with Python.
    os.environ.setdefault("GRADWIRE_PYTHON", sys.executable)
    # The program finds a torch that is installed beside the package; this one may be elsewhere, as
    # in a virtual environment with the packages of another.
    paths = [str(Path(torch.__file__).parent / "lib"), os.environ.get("LD_LIBRARY_PATH")]
    os.environ["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    os.execv(program, [str(program), *sys.argv[1:]])
