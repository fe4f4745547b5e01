"""The ``gradwire`` command of an installed package: hands over to the program beside this file."""

import os
import sys
from pathlib import Path


def main() -> None:
    program = Path(__file__).parent / "bin" / "gradwire"
    os.execv(program, [str(program), *sys.argv[1:]])
