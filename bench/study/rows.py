"""All runs of the study. The methods of a task have the same settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import gradwire

METHODS = tuple(name for name in gradwire.methods() if name != "auto")
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Pace:
    batch: int  # samples per learner and step
    lr: float


@dataclass(frozen=True)
class Task:
    name: str
    data: str  # a kind of data.py
    model: str
    epochs: int
    paces: dict[str, Pace] = field(hash=False)  # by optimizer
    decay_at: int  # after this epoch the learning rate is a tenth, so that the end is less noisy
    samples: int = 0  # training samples to use; 0 for all


@dataclass(frozen=True)
class Run:
    part: str  # the part of the study that it belongs to
    task: Task
    method: str
    optimizer: str = "sgd"
    seed: int = 1
    learners: int = 2  # threads of one process; two give the same bits as two workers
    batch: int = 0  # samples per learner and step; 0 for the task's number

    @property
    def samples_per_step(self) -> int:
        return self.batch or self.task.paces[self.optimizer].batch

    @property
    def name(self) -> str:
        method = self.method.replace(":", "-").replace("=", "").replace(",", "-")
        return (
            f"{self.task.name}-{self.optimizer}-{method}-{self.learners}learners"
            f"-batch{self.samples_per_step}-seed{self.seed}"
        )

    @property
    def uncompressed(self) -> Run:
        return replace(self, method="allreduce")

    def arguments(self, data: str, quick: bool) -> list[str]:
        task = self.task
        arguments = [
            "--data", data, "--model", task.model, "--method", self.method,
            "--optimizer", self.optimizer, "--lr", task.paces[self.optimizer].lr,
            "--batch", self.samples_per_step, "--epochs", 1 if quick else task.epochs,
            "--warmup", 0.2, "--decay-at", task.decay_at, "--seed", self.seed,
            "--learners", self.learners,
        ]  # fmt: skip
        if quick:
            arguments += ["--train-limit", 640, "--test-limit", 200]
        elif task.samples:
            arguments += ["--train-limit", task.samples]
        return [str(argument) for argument in arguments]


# SGD has small batches, so that there are many steps: residuals arrive some dozens of steps later.
SMALL_STEPS = Pace(batch=8, lr=0.006)
ADAM = Pace(batch=32, lr=0.001)
TASKS = (
    Task(
        *("fashion-cnn", "fashion-mnist", "cnn", 5, {"sgd": SMALL_STEPS, "adam": ADAM}),
        decay_at=3,
    ),
    Task(
        *("fashion-mlp", "fashion-mnist", "mlp", 5, {"sgd": SMALL_STEPS, "adam": ADAM}),
        decay_at=3,
        samples=30000,
    ),
    Task(
        *("colour-cnn", "cifar10", "cnn", 3, {"sgd": Pace(2, 0.002), "adam": Pace(8, 0.0005)}),
        decay_at=2,
        samples=20000,
    ),
    Task(
        *("text-lstm", "text", "lstm", 2, {"sgd": Pace(4, 0.2), "adam": Pace(4, 0.002)}),
        decay_at=1,
    ),
    Task(
        *("speech-dnn", "wav", "dnn", 14, {"sgd": Pace(4, 0.006), "adam": Pace(16, 0.001)}),
        decay_at=10,
    ),
)
SWEEP = Task(
    *("sweep-cnn", "fashion-mnist", "cnn", 5, {"sgd": Pace(32, 0.03)}),
    decay_at=3,
    samples=20000,
)


def carries_claim(task: Task, method: str) -> bool:
    """Rounding needs no further seeds."""
    rounds = gradwire.methods()[method]["variants"][method]["loss_class"] == "rounded"
    return task.name != "fashion-mlp" and not rounds


def runs() -> Iterable[Run]:
    """The first seed of everything comes first, so that an unfinished study is useful."""
    for seed in SEEDS:
        for task in TASKS:
            for method in METHODS:
                if seed == SEEDS[0] or carries_claim(task, method):
                    yield Run("methods", task, method, seed=seed)
    for task in TASKS:
        for method in METHODS:
            yield Run("methods", task, method, "adam")
    yield from sweeps()


def sweeps() -> Iterable[Run]:
    compared = ("allreduce", "acpsgd", "adacomp")
    for learners in (1, 8, 32, 128):
        for method in compared:
            yield Run("learners", SWEEP, method, learners=learners, batch=128 // learners)
    for batch in (8, 32, 128):
        for method in compared:
            yield Run("minibatch", SWEEP, method, batch=batch)
    for bins in (10, 50, 200, 500, 2000):
        yield Run("bins", SWEEP, f"adacomp:bin_conv={bins},bin_dense={bins}")
    for rank in (1, 2, 4, 8):
        yield Run("rank", SWEEP, f"acpsgd:rank={rank}")
    yield Run("ablation", SWEEP, "acpsgd:error_feedback=false")
