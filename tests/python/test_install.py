"""What a C++ user does after installing: find_package(gradwire) from a project of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from worlds import free_port

ROOT = Path(__file__).resolve().parents[2]
BUILD = os.environ.get("GRADWIRE_BUILD")


def run(*command: object, **options: object) -> str:
    outcome = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert outcome.returncode == 0, outcome.stdout[-2000:] + outcome.stderr[-2000:]
    return outcome.stdout


@pytest.mark.skipif(BUILD is None, reason="GRADWIRE_BUILD is unset")
def test_find_package_from_another_project(tmp_path):
    project = tmp_path / "project"
    shutil.copytree(ROOT / "tests/package", project)
    prefix = tmp_path / "prefix"
    run("cmake", "--install", BUILD, "--component", "development", "--prefix", prefix)
    run(
        *("cmake", "-S", project, "-B", project / "build", f"-DCMAKE_PREFIX_PATH={prefix}"),
        *(f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Debug"),
    )
    run("cmake", "--build", project / "build", timeout=300)
    world = {
        "RANK": "0", "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
    }  # fmt: skip
    output = run(project / "build/uses_gradwire", env={**os.environ, **world}, timeout=60)
    assert "steps: 1" in output
