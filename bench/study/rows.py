"""What is trained: every run of the study, with the same settings for all methods of a task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

METHODS = ("allreduce", "half", "sign", "topk", "powersgd", "acpsgd", "adacomp")
SEEDS = (1, 2, 3)


@dataclass(frozen=True)
class Task:
    name: str
    data: str  # a kind: see data.py
    model: str
    epochs: int
    batch: int
    lr: dict[str, float] = field(hash=False)  # by optimizer


@dataclass(frozen=True)
class Run:
    part: str  # of the study
    task: Task
    method: str
    optimizer: str = "sgd"
    seed: int = 1
    workers: int = 2
    learners: int = 0
    batch: int = 0  # of a worker, where it is not the task's

    @property
    def name(self) -> str:
        crowd = f"{self.learners}learners" if self.learners else f"{self.workers}workers"
        batch = self.batch or self.task.batch
        method = self.method.replace(":", "-").replace("=", "").replace(",", "-")
        return f"{self.task.name}-{self.optimizer}-{method}-{crowd}-batch{batch}-seed{self.seed}"

    def arguments(self, data: str, quick: bool) -> list[str]:
        task = self.task
        crowd = ["--learners", self.learners] if self.learners else ["--workers", self.workers]
        arguments = [
            "--data", data, "--model", task.model, "--method", self.method,
            "--optimizer", self.optimizer, "--lr", task.lr[self.optimizer], "--seed", self.seed,
            "--batch", self.batch or task.batch, "--epochs", 1 if quick else task.epochs,
            "--warmup", 0.2, *crowd,
        ]  # fmt: skip
        if quick:
            arguments += ["--train-limit", 640, "--test-limit", 200]
        return [str(argument) for argument in arguments]


RATES = {"sgd": 0.03, "adam": 0.001}
TASKS = {
    task.name: task
    for task in (
        Task("fashion-cnn", "fashion-mnist", "cnn", 5, 32, RATES),
        Task("fashion-mlp", "fashion-mnist", "mlp", 5, 32, RATES),
        Task("colour-cnn", "cifar10", "cnn", 3, 32, RATES),
        Task("text-lstm", "text", "lstm", 3, 16, {"sgd": 0.5, "adam": 0.002}),
        Task("speech-dnn", "wav", "dnn", 20, 16, RATES),
    )
}


def runs() -> Iterable[Run]:
    """The ones that carry a claim first."""
    for task in TASKS.values():
        for seed in SEEDS:
            for method in METHODS:
                yield Run("methods", task, method, seed=seed)
    for task in TASKS.values():
        for method in METHODS:
            yield Run("methods", task, method, "adam")
    cnn = TASKS["fashion-cnn"]
    for learners in (1, 8, 32, 128):
        for method in ("allreduce", "acpsgd", "adacomp"):
            yield Run("learners", cnn, method, learners=learners, batch=128 // learners)
    for batch in (8, 128):
        for method in ("allreduce", "acpsgd", "adacomp"):
            yield Run("minibatch", cnn, method, batch=batch)
    for bins in (10, 50, 200, 500, 2000):
        yield Run("bins", cnn, f"adacomp:bin_conv={bins},bin_dense={bins}")
    for rank in (1, 2, 4, 8):
        yield Run("rank", cnn, f"acpsgd:rank={rank}")
    for option in ("error_feedback", "reuse"):
        yield Run("ablation", cnn, f"acpsgd:{option}=false")
