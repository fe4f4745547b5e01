"""Workers that are killed or stopped cause errors, but no hangs and no wrong results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from training import METHODS, same
from worlds import free_port

HERE = Path(__file__).parent
WORKERS = 2
# `make chaos` sets GRADWIRE_KILLS and trains each method alone. Otherwise they share one training.
KILLS = int(os.environ.get("GRADWIRE_KILLS", "20"))
GROUPS = [[method] for method in METHODS] if "GRADWIRE_KILLS" in os.environ else [METHODS]
STEPS = 280 // len(GROUPS[0])  # more than a worker does before it is killed


# What the survivor may say. The first is ours; the others are the backend's, which come between
# steps and from plain all-reduce.
REASONS = (
    "the exchange of gradients with the other workers failed",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Timed out",
)


class World:
    """The worker processes, from one start to their end."""

    def __init__(
        self,
        folder: Path,
        variants: list[str],
        steps: int = STEPS,
        script: Path = HERE / "chaos_worker.py",
        **environment_of_script: str,
    ) -> None:
        self.folder = folder
        environment = {
            **os.environ,
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(free_port()),
            "WORLD_SIZE": str(WORKERS),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}",
            **environment_of_script,
        }
        self.errors = [folder / f"stderr{worker}" for worker in range(WORKERS)]
        self.processes = [
            subprocess.Popen(
                [sys.executable, script, folder, str(steps), *variants],
                env={**environment, "RANK": str(worker)},
                stderr=self.errors[worker].open("w"),
            )
            for worker in range(WORKERS)
        ]

    def wait_until_training(self, seconds: float = 60) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if all((self.folder / f"ready-{p.pid}").exists() for p in self.processes):
                return
            assert all(p.poll() is None for p in self.processes), self.text()
            time.sleep(0.01)
        raise AssertionError("the workers did not start in time")

    def wait(self, seconds: float) -> list[int]:
        try:
            return [p.wait(seconds) for p in self.processes]
        finally:
            for process in self.processes:
                process.kill()

    def text(self) -> str:
        return "\n".join(path.read_text()[-2000:] for path in self.errors)


def weights_of(folder: Path, worker: int) -> dict[str, list[torch.Tensor]]:
    return torch.load(folder / f"final{worker}.pt", weights_only=True)


def undisturbed(folder: Path, variants: list[str], steps: int = STEPS) -> dict:
    folder.mkdir()
    world = World(folder, variants, steps)
    assert world.wait(180) == [0] * WORKERS, world.text()
    return weights_of(folder, 0)


@pytest.mark.parametrize("variants", GROUPS, ids=lambda names: "_".join(names)[:20])
def test_killed_at_random_times_it_ends_where_it_would_have(tmp_path, variants):
    wanted = undisturbed(tmp_path / "undisturbed", variants)
    folder = tmp_path / "chaos"
    folder.mkdir()
    generator = random.Random(11)
    kills = 0
    for _ in range(2 * KILLS):
        world = World(folder, variants)
        world.wait_until_training()
        time.sleep(generator.uniform(0, 0.5))
        victim = generator.randrange(WORKERS)
        world.processes[victim].kill()
        begin = time.monotonic()
        codes = world.wait(40)
        if codes[1 - victim] != 0:  # otherwise all was done before the kill
            kills += 1
            assert codes[victim] == -signal.SIGKILL, world.text()
            assert codes[1 - victim] == 1, "the other worker raised nothing"
            # The group's timeout is 15 s. Usually the closed connection ends it at once.
            assert time.monotonic() - begin < 25
            text = world.errors[1 - victim].read_text()
            assert any(reason in text for reason in REASONS), text[-2000:]
        if kills == KILLS:
            break
        # Remove late checkpoints, so that the training is long enough for all kills.
        for path in folder.glob("worker*-*.pt"):
            if int(path.stem.split("-")[1]) > STEPS // 2:
                path.unlink()
    world = World(folder, variants)
    assert world.wait(180) == [0] * WORKERS, world.text()
    for worker in range(WORKERS):
        for variant, weights in weights_of(folder, worker).items():
            assert same(weights, wanted[variant]), variant
    assert kills >= KILLS


def test_a_stopped_worker_delays_and_changes_nothing(tmp_path):
    wanted = undisturbed(tmp_path / "undisturbed", METHODS, 15)
    folder = tmp_path / "stopped"
    folder.mkdir()
    world = World(folder, METHODS, 15)
    world.wait_until_training()
    generator = random.Random(3)
    stops = 0
    for _ in range(4):
        time.sleep(generator.uniform(0, 0.3))
        process = world.processes[generator.randrange(WORKERS)]
        if process.poll() is None:
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            stops += 1
    assert stops > 0
    assert world.wait(180) == [0] * WORKERS, world.text()
    for variant, weights in weights_of(folder, 1).items():
        assert same(weights, wanted[variant]), variant


DIES_IN_A_PHASE = """
import ctypes, os, signal, sys, runpy
from pathlib import Path
import training

method, phase, number, microseconds = os.environ["DIE"].split()
if os.environ["RANK"] == "1":
    if phase == "checkpoint":
        def die(descriptor):
            os.kill(os.getpid(), signal.SIGKILL)
        # The second checkpoint is written, but not yet forced to the disk.
        original, calls = os.fsync, []
        def fsync(descriptor):
            calls.append(descriptor)
            return die(descriptor) if len(calls) == 3 else original(descriptor)
        os.fsync = fsync
    else:
        library = ctypes.CDLL(os.environ["GRADWIRE_BUILD"] + "/tests/engine/libdie_in_span.so")
        original, steps = training.Training.step, []
        def step(self, worker, number_of_step):
            if self.variant == method:
                steps.append(number_of_step)
                if len(steps) == 2:
                    library.die_in_span(
                        f"gradwire::{phase}".encode(), int(number), int(microseconds))
            return original(self, worker, number_of_step)
        training.Training.step = step
runpy.run_path("@HERE@/chaos_worker.py", run_name="__main__")
"""

# powersgd has two rounds, and adacomp gathers. `make chaos` takes all methods. (Plain all-reduce
# has only one phase, its collective.)
COMPRESSING = [method for method in METHODS if method != "allreduce"]
MORTAL = COMPRESSING if "GRADWIRE_KILLS" in os.environ else ["powersgd", "adacomp"]
# A phase, which of its spans in a step, and how many microseconds after its beginning.
MOMENTS = ["encode 1 0", "encode 2 50", "collective 1 0", "collective 1 100", "decode 1 0"]
PHASES = [f"{method} {moment}" for method in MORTAL for moment in MOMENTS]
PHASES += ["allreduce collective 1 0", "any checkpoint 0 0"]


def test_killed_in_every_phase_it_ends_where_it_would_have(tmp_path):
    variants = ["allreduce", *MORTAL]
    steps = 2 * len(PHASES) + 2
    wanted = undisturbed(tmp_path / "undisturbed", variants, steps)
    folder = tmp_path / "killed"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(DIES_IN_A_PHASE.replace("@HERE@", str(HERE)))
    for phase in PHASES:
        world = World(folder, variants, steps, script=script, DIE=phase)
        codes = world.wait(60)
        assert codes == [1, -signal.SIGKILL], (phase, codes, world.text())
        text = world.errors[0].read_text()
        assert any(reason in text for reason in REASONS), (phase, text[-2000:])
    world = World(folder, variants, steps)
    assert world.wait(180) == [0] * WORKERS, world.text()
    for worker in range(WORKERS):
        for variant, weights in weights_of(folder, worker).items():
            assert same(weights, wanted[variant]), variant


SELF_DESTRUCTING = """
import os, signal, sys, runpy
from pathlib import Path
import training

flag = Path(sys.argv[1]) / f"died{os.environ['RANK']}"
original = training.Training.step
def step(self, worker, number):
    if number == 7 and worker == 1 and not flag.exists():
        flag.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return original(self, worker, number)
training.Training.step = step
runpy.run_path("@HERE@/chaos_worker.py", run_name="__main__")
"""


def test_torchrun_restarts_end_where_an_undisturbed_run_does(tmp_path):
    variants = ["acpsgd", "adacomp", "powersgd"]
    wanted = undisturbed(tmp_path / "undisturbed", variants, 12)
    folder = tmp_path / "restarted"
    folder.mkdir()
    script = tmp_path / "script.py"
    script.write_text(SELF_DESTRUCTING.replace("@HERE@", str(HERE)))
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": f"{HERE}:{os.environ.get('PYTHONPATH', '')}",
        # Otherwise torchrun keeps its store, in which new workers may find the addresses of dead
        # ones (docs/checkpointing.md).
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2"]
    command += ["--max-restarts", "1", "--rdzv-backend", "c10d", "--rdzv-endpoint", "127.0.0.1:0"]
    command += [str(script), str(folder), "12", *variants]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as torchrun:
        try:
            _, errors = torchrun.communicate(timeout=240)
        finally:
            torchrun.terminate()  # unlike kill, this also ends its workers
    assert torchrun.returncode == 0, errors[-3000:]
    assert (folder / "died1").exists()
    for variant, weights in weights_of(folder, 0).items():
        assert same(weights, wanted[variant]), variant
