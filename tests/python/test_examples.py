"""The example programs as a user runs them, on little data."""

from __future__ import annotations

import gzip
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from built import BUILD, ROOT, needs_build
from worlds import free_port

PROGRAM = BUILD / "examples/train_fashion_mnist"
SCRIPT = ROOT / "examples/train_fashion_mnist.py"
DATA = Path("/usr/share/datasets/fashion-mnist")

# This is enough to learn something in about a second.
LITTLE = ["--epochs", "2", "--batch", "8", "--train-limit", "800", "--test-limit", "500"]
CHANCE = 0.1


def environment(**more: str) -> dict[str, str]:
    # The workers must import the same gradwire as this process.
    package = Path(importlib.util.find_spec("gradwire").origin).parent
    return os.environ | {
        "PYTHONPATH": str(package.parent),
        "OMP_NUM_THREADS": "1",
        "GLOO_SOCKET_IFNAME": "lo",
        **more,
    }


def run_program(workers: int, *args: str) -> list[tuple[int, str]]:
    """Returns the exit status and the output of each worker."""
    world = environment(
        WORLD_SIZE=str(workers), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())
    )
    processes = [
        subprocess.Popen(
            [PROGRAM, *args],
            env=world | {"RANK": str(worker)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for worker in range(workers)
    ]
    try:
        outputs = [process.communicate(timeout=60)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [(p.returncode, output) for p, output in zip(processes, outputs, strict=True)]


@needs_build
@pytest.mark.parametrize(
    ("workers", "method", "options"),
    [(2, "allreduce", {}), (2, "acpsgd:rank=2", {"rank": 2}), (4, "acpsgd:rank=2", {"rank": 2})],
)
def test_the_program_learns_and_reports(workers, method, options, tmp_path):
    file = tmp_path / "result.json"
    ended = run_program(workers, "--method", method, *LITTLE, "--json", str(file))
    assert [code for code, _ in ended] == [0] * workers, ended
    assert len(ended[0][1].splitlines()) == 2  # worker 0 prints a line per epoch
    assert all(output == "" for _, output in ended[1:])

    result = json.loads(file.read_text())
    assert result["method"] == method.partition(":")[0]
    assert result["options"] == options
    assert result["workers"] == workers
    assert result["steps"] == result["wire"]["steps"] == 2 * (800 // (8 * workers))
    assert result["seconds_per_step"] > 0
    assert {"code_ratio", "sent_bytes", "encode_seconds", "plan"} <= result["wire"].keys()
    first, last = result["epochs"]
    assert set(first) >= {"epoch", "train_loss", "test_accuracy", "seconds"}
    assert last["train_loss"] < first["train_loss"]
    assert last["test_accuracy"] > 2 * CHANCE
    assert result["wire"]["wire_ratio"] > 10 if options else result["wire"]["wire_ratio"] == 1


@pytest.mark.parametrize("method", ["acpsgd", "topk"])
def test_the_loop_without_ddp_learns(method):
    done = subprocess.run(
        [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
         ROOT / "examples/train_without_ddp.py", "--method", method],
        env=environment(), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    losses = [float(loss) for loss in re.findall(r"loss (\S+)", done.stdout)]
    assert len(losses) == 4
    assert losses[-1] < 0.8 * losses[0]


def copy_of_the_data(folder: Path) -> Path:
    for file in DATA.iterdir():
        (folder / file.name).symlink_to(file)
    return folder


def damage(file: Path, how: str) -> None:
    content = file.read_bytes()
    file.unlink()
    if how == "cut short":
        file.write_bytes(content[: len(content) // 2])
    elif how == "wrong checksum":
        file.write_bytes(content[:-8] + b"\0\0\0\0" + content[-4:])
    elif how == "wrong magic":
        file.write_bytes(gzip.compress(b"\0\0\x08\x02" + gzip.decompress(content)[4:]))
    elif how == "too long":
        file.write_bytes(gzip.compress(gzip.decompress(content) + b"\0"))


@needs_build
@pytest.mark.parametrize(
    "how", ["missing", "cut short", "wrong checksum", "wrong magic", "too long"]
)
def test_the_program_names_a_broken_file(how, tmp_path):
    broken = copy_of_the_data(tmp_path) / "t10k-labels-idx1-ubyte.gz"
    damage(broken, how)
    [(code, output)] = run_program(1, "--data", str(tmp_path))
    assert code == 1
    assert str(broken) in output


@needs_build
def test_the_program_names_a_wrong_option():
    for method, named in (
        ("acpsgd:rnk=4", "rnk=4"),
        ("acpsgd:rank=four", "rank=four"),
        ("nonesuch", "nonesuch"),
    ):
        [(code, output)] = run_program(1, "--method", method, "--train-limit", "64")
        assert code == 1
        assert named in output


def run_script(workers: int, *args: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [
            sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(workers),
            "--master-addr", "127.0.0.1", "--master-port", str(free_port()), SCRIPT, *args,
        ],
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(("workers", "method"), [(2, "allreduce"), (4, "acpsgd")])
def test_the_script_learns(workers, method):
    done = run_script(workers, "--method", method, *LITTLE)
    assert done.returncode == 0, done.stderr
    losses = [float(text) for text in re.findall(r"loss ([\d.]+)", done.stdout)]
    accuracies = [float(text) for text in re.findall(r"accuracy +([\d.]+) %", done.stdout)]
    assert len(losses) == 2
    assert losses[1] < losses[0]
    assert accuracies[1] > 100 * 2 * CHANCE


def test_the_script_names_a_broken_file(tmp_path):
    broken = copy_of_the_data(tmp_path) / "train-images-idx3-ubyte.gz"
    damage(broken, "cut short")
    done = subprocess.run(
        [sys.executable, SCRIPT, "--data", tmp_path],
        env=environment(), capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert str(broken) in done.stderr
