"""Starts programs as a user starts them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from built import BUILD, ROOT
from worlds import free_port

PAGE = ROOT / "docs/ecosystem.md"


def run(*command: object, **options: object) -> str:
    """Run a command that must succeed, and return what it printed."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def torchrun(workers: int) -> list[str]:
    return [sys.executable, "-m", "torch.distributed.run", f"--nproc-per-node={workers}",
            "--rdzv-backend=c10d", "--rdzv-endpoint=127.0.0.1:0"]  # fmt: skip


def accelerate_launch(workers: int) -> list[str]:
    return [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu",
            f"--num_processes={workers}", f"--main_process_port={free_port()}"]  # fmt: skip


def skip_without_lab(done: subprocess.CompletedProcess) -> None:
    """Skip the test if the lab says that it cannot run here. Any other error is a failure."""
    if done.returncode != 0 and "lets you make no network namespace" in done.stderr:
        pytest.skip(done.stderr)


def run_bench(module: str, *arguments: object, timeout: float) -> subprocess.CompletedProcess:
    """Run `python -m bench.MODULE` as the Makefile does. Skip the test if the lab cannot run."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{module}", *map(str, arguments)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": ":".join(paths), "GRADWIRE_BUILD": str(BUILD)},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    skip_without_lab(done)
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done


def launch(command: list[object], folder: Path, fails: bool = False, **environment: str) -> str:
    """Run the command in ``folder`` and return what it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        cwd=folder,
        env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert (done.returncode != 0) == fails, done.stdout[-3000:] + done.stderr[-5000:]
    return done.stdout + done.stderr


def outcomes(script: Path, folder: Path, what: str, workers: int) -> list[dict]:
    """Run a worker script of the tests and return what each worker wrote into ``folder``."""
    launch([*torchrun(workers), script, what, folder], folder)
    return [torch.load(folder / f"{what}-{w}-of-{workers}.pt") for w in range(workers)]


def script_of_the_page(name: str, folder: Path) -> str:
    """Write the script of this name in docs/ecosystem.md into ``folder``."""
    [code] = re.findall(rf"^```python {name}\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    (folder / name).write_text(code)
    return name


def assert_the_page_holds(printed: str, workers: int = 2) -> None:
    """Check that every worker sent less than all-reduce, and that all have the same weights."""
    lines = re.findall(
        r"worker (\d+): sent ([\d.]+) times less, sum of weights (-?[\d.e-]+)", printed
    )
    assert sorted(int(worker) for worker, _, _ in lines) == list(range(workers)), printed
    assert all(float(ratio) > 1.5 for _, ratio, _ in lines)
    assert len({weights for _, _, weights in lines}) == 1
