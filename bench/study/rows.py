"""All runs of the study. The methods of a task have the same settings."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

SEEDS = (1, 2, 3)
LENGTHS = (500, 2000)  # steps
LONG = 8000  # steps of the recommended methods
SWEPT = 500  # steps of the sweeps
LINKS = {"100mbit": "100 Mb/s", "250mbit": "250 Mb/s", "1gbit": "1 Gb/s"}
ROUNDS = (1, 2, 3)  # of the step times
TIMED_STEPS = 50

# The defaults of the low-rank methods, chosen from their sweep.
POWERSGD = "powersgd:rank=32,dtype=int4"
ACPSGD = "acpsgd:rank=64,dtype=int4"
PUBLISHED_LOW_RANK = "rank=4,dtype=fp32"
METHODS = (
    "allreduce",
    "half",
    "quant:bits=8",
    "quant:bits=4",
    "quant:bits=2",
    "sign:block=0",
    "sign:block=64",
    "topk",
    "adacomp",
    f"powersgd:{PUBLISHED_LOW_RANK}",
    f"acpsgd:{PUBLISHED_LOW_RANK}",
    POWERSGD,
    ACPSGD,
)
WITH_MOMENTUM = ("adacomp:momentum=0.9",)  # for tasks with SGD, whose momentum this is
AUTO = ("auto", "auto:delayed=true")  # only their time to equal loss is asked for
RECOMMENDED = (
    "allreduce",
    "half",
    "quant:bits=4",
    POWERSGD,
    ACPSGD,
    *WITH_MOMENTUM,
)
STRONG = ("quant:bits=2", "sign:block=64", "topk", "adacomp", f"acpsgd:{PUBLISHED_LOW_RANK}")
RANKS = (2, 4, 8, 16, 32, 64)
DTYPES = ("fp32", "bf16", "int8", "int4")


@dataclass(frozen=True)
class Task:
    name: str
    data: str  # a kind of data.py
    model: str
    kinds: tuple[str, ...]  # of parameters whose compression rate is shown
    optimizer: str
    batch: int  # samples per worker and step
    settings: dict[str, object] = field(hash=False)  # further arguments of `gradwire train`

    @property
    def methods(self) -> tuple[str, ...]:
        return METHODS + (WITH_MOMENTUM if self.optimizer == "sgd" else ())


# Every warm-up takes about 50 steps.
GPT = Task(
    *("gpt", "text", "gpt", (), "adamw", 12),
    {"--lr": 0.001, "--clip": 1, "--warmup": 0.06},
)
CIFAR = Task(
    *("cifar-cnn", "cifar10", "cnn", ("conv", "dense"), "sgd", 64),
    {"--lr": 0.05, "--weight-decay": 0.0005, "--warmup": 0.4, "--augment": None,
     "--train-limit": 15000},
)  # fmt: skip
LSTM = Task(
    *("lstm", "text", "lstm", (), "adam", 32),
    {"--lr": 0.002, "--clip": 1, "--warmup": 0.16},
)
FASHION = Task(
    *("fashion-cnn", "fashion-mnist", "cnn", ("conv", "dense"), "sgd", 64),
    {"--lr": 0.05, "--weight-decay": 0.0005, "--warmup": 0.1},
)
TASKS = (GPT, CIFAR, LSTM, FASHION)
TIMED = (GPT, CIFAR, LSTM)  # tasks with times


@dataclass(frozen=True)
class Run:
    task: Task
    method: str
    steps: int
    seed: int = 1
    link: str = ""  # with a link there are two workers, otherwise two learners: the same bits
    round: int = 0  # of a run for its step time; 0 for a training

    @property
    def name(self) -> str:
        method = self.method.replace(":", "-").replace("=", "").replace(",", "-")
        parts = [self.task.name, method, f"{self.steps}steps", f"seed{self.seed}"]
        parts += [self.link] if self.link else []
        return "-".join(["time", *parts, f"round{self.round}"] if self.round else parts)

    def arguments(self, data: str, quick: bool) -> list[str]:
        task = self.task
        steps = max(2, self.steps // 250) if quick else self.steps
        settings = {
            "--data": data, "--model": task.model, "--method": self.method,
            "--optimizer": task.optimizer, "--batch": 4 if quick else task.batch,
            "--steps": steps, "--seed": self.seed, "--cosine": None, **task.settings,
        }  # fmt: skip
        if self.link:
            settings |= {"--workers": 2, "--link": self.link}
        else:
            settings |= {"--learners": 2}
        if quick or self.round:
            settings["--test-limit"] = 20
        return [str(part) for item in settings.items() for part in item if part is not None]


def trainings(tasks: Iterable[Task], lengths: Iterable[int], seed: int) -> Iterable[Run]:
    for steps in lengths:
        for task in tasks:
            for method in task.methods:
                yield Run(task, method, steps, seed)


def low_rank_sweep(task: Task) -> list[Run]:
    return [
        Run(task, f"{method}:rank={rank},dtype={dtype}", SWEPT)
        for dtype in DTYPES
        for method in ("powersgd", "acpsgd")
        for rank in RANKS
    ]


def block_sweep() -> list[Run]:
    return [Run(CIFAR, f"sign:block={block}", SWEPT) for block in (0, 32, 64, 256, 1024)]


def momentum_sweep() -> list[Run]:
    methods = ("topk", "sign:block=0", "sign:block=64", "adacomp")
    pairs = [(m, f"{m}{',' if ':' in m else ':'}momentum=0.9") for m in methods]
    return [Run(CIFAR, method, SWEPT) for pair in pairs for method in pair]


def start_sweep(task: Task) -> list[Run]:
    return [
        Run(task, f"{m}{',' if ':' in m else ':'}start_after={start}" if start else m, SWEPT)
        for m in STRONG
        for start in (0, 50, 100)
    ]


def sweeps() -> dict[str, list[Run]]:
    """The sweeps by their headings. They share some runs with each other and with the tables."""
    return {
        "low rank, gpt": low_rank_sweep(GPT),
        "low rank, cifar-cnn": low_rank_sweep(CIFAR),
        "sign's block, cifar-cnn": block_sweep(),
        "momentum correction, cifar-cnn": momentum_sweep(),
        "start_after, gpt": start_sweep(GPT),
        "start_after, cifar-cnn": start_sweep(CIFAR),
    }


def step_times(tasks: Iterable[Task]) -> Iterable[Run]:
    """Every round has all methods and links, so that a slow hour of the machine meets all."""
    for turn in ROUNDS:
        for task in tasks:
            for link in LINKS:
                for method in task.methods:
                    yield Run(task, method, TIMED_STEPS, link=link, round=turn)


def long_trainings() -> Iterable[Run]:
    for task in TIMED:
        for method in task.methods:
            if method in RECOMMENDED:
                yield Run(task, method, LONG)
