"""Runs the plain script of docs/ecosystem.md under every launcher."""

import shutil
import sys

import pytest
from launchers import (
    accelerate_launch,
    assert_the_page_holds,
    launch,
    script_of_the_page,
    torchrun,
)
from worlds import free_port


@pytest.mark.parametrize("launcher", [torchrun, accelerate_launch])
def test_launchers_with_torchs_names(launcher, tmp_path):
    name = script_of_the_page("train.py", tmp_path)
    assert_the_page_holds(launch([*launcher(2), name], tmp_path))


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")
def test_mpirun(tmp_path):
    name = script_of_the_page("train.py", tmp_path)
    command = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", 2,
               "-x", "MASTER_ADDR=127.0.0.1", "-x", f"MASTER_PORT={free_port()}",
               sys.executable, name]  # fmt: skip
    assert_the_page_holds(launch(command, tmp_path))


def test_the_environment_of_srun(tmp_path):
    """A shell starts two tasks and sets the variables that srun sets."""
    name = script_of_the_page("train.py", tmp_path)
    tasks = "for task in 0 1; do SLURM_PROCID=$task $0 $1 & done; wait"
    printed = launch(
        ["bash", "-c", tasks, sys.executable, name], tmp_path,
        SLURM_NTASKS="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()),
    )  # fmt: skip
    assert_the_page_holds(printed)
