"""The cells of the race: a model, a batch, a rate, a number of workers, and who runs there."""

from __future__ import annotations

from dataclasses import dataclass, replace

EVERYONE = (
    *("compute", "ddp", "allreduce", "half", "sign", "sign-vote", "topk", "adacomp"),
    *(
        "powersgd",
        "acpsgd",
        "acpsgd-bf16",
        "auto",
        "torch-fp16",
        "torch-powersgd",
        "epfml-powersgd",
    ),
)
LOW_RANK = ("compute", "ddp", "powersgd", "acpsgd", "acpsgd-bf16", "torch-powersgd")
GATHERED = ("ddp-gathered", "powersgd-gathered", "acpsgd-gathered")
ABLATIONS = (
    "compute",
    *("ddp", "ddp-unfused", "ddp-no-overlap"),
    *("powersgd", "powersgd-unfused", "powersgd-no-overlap"),
    *("acpsgd", "acpsgd-unfused", "acpsgd-no-overlap"),
    *GATHERED,
)


@dataclass(frozen=True)
class Cell:
    title: str
    model: str
    batch: int  # per worker
    rate: str
    contenders: tuple[str, ...] = EVERYONE
    workers: int = 2
    rank: int = 32
    steps: int = 12  # timed steps of each contender
    turn: int = 6  # timed steps before the next contender takes over; even: P and Q in turn
    # Contenders stay from turn to turn: for short turns, where there is memory for all of them.
    # Not for those that travel by all-gather, which is a switch of the process.
    keep: bool = False
    budget: int = 400  # seconds


def without(*left_out: str) -> tuple[str, ...]:
    return tuple(name for name in EVERYONE if name not in left_out)


# With the time it takes to start them, the budgets stay below 90 minutes.
CELLS: dict[str, Cell] = {
    "bert-4x64-250mbit": Cell(
        "BERT-Base, batch 4 x 64 tokens, 250 Mb/s",
        *("bert", 4, "250mbit", (*LOW_RANK, "torch-fp16")),
        steps=20,
        turn=2,
        keep=True,
        budget=1200,
    ),
    "bert-1x64-1gbit": Cell(
        "BERT-Base, batch 1 x 64 tokens, 1 Gb/s",
        *("bert", 1, "1gbit", LOW_RANK),
        steps=20,
        turn=2,
        keep=True,
        budget=360,
    ),
    "bert-1x64-1gbit-others": Cell(
        "BERT-Base, batch 1 x 64 tokens, 1 Gb/s: other methods",
        *("bert", 1, "1gbit", without("allreduce", *LOW_RANK[2:])),
        steps=12,
        turn=4,
        keep=True,
        budget=420,
    ),
    "bert-1x64-100mbit": Cell(
        "BERT-Base, batch 1 x 64 tokens, 100 Mb/s",
        *("bert", 1, "100mbit", LOW_RANK),
        steps=20,
        turn=2,
        keep=True,
        budget=780,
    ),
    "bert-4x64-100mbit": Cell(
        "BERT-Base, batch 4 x 64 tokens, 100 Mb/s",
        *("bert", 4, "100mbit", ("compute", "sign", "topk", "adacomp", "acpsgd")),
        steps=16,
        turn=2,
        keep=True,
        budget=300,
    ),
    "bert-1x64-10gbit": Cell(
        "BERT-Base, batch 1 x 64 tokens, 10 Gb/s",
        *("bert", 1, "10gbit", (*LOW_RANK, "auto", "torch-fp16")),
        steps=16,
        turn=4,
        keep=True,
        budget=280,
    ),
    "bert-1x64-unlimited": Cell(
        "BERT-Base, batch 1 x 64 tokens, unlimited link",
        *("bert", 1, "unlimited", ("compute", "ddp", "allreduce", "acpsgd", "auto")),
        steps=24,
        turn=4,
        keep=True,
        budget=280,
    ),
    "resnet50-1gbit": Cell(
        "ResNet-50, batch 4, 1 Gb/s",
        *("resnet50", 4, "1gbit", without("acpsgd-bf16", "torch-fp16")),
        rank=4,
        steps=12,
        turn=4,
        keep=True,
        budget=480,
    ),
    "lstm-100mbit": Cell(
        "LSTM 2 x 650, batch 20, 100 Mb/s",
        *("lstm", 20, "100mbit", without("allreduce", "half", "sign-vote")),
        steps=12,
        turn=4,
        keep=True,
        budget=330,
    ),
    "mlp-1gbit": Cell(
        "MLP, batch 128, 1 Gb/s",
        *("mlp", 128, "1gbit"),
        steps=16,
        turn=4,
        keep=True,
        budget=135,
    ),
    "bert-1x64-1gbit-4workers": Cell(
        "BERT-Base, batch 1 x 64 tokens, 1 Gb/s, 4 workers",
        *("bert", 1, "1gbit", (*LOW_RANK, *GATHERED)),
        workers=4,
        steps=8,
        turn=4,
        budget=420,
    ),
    "ablation-1gbit": Cell(
        "Ablation: BERT-Base, batch 1 x 64 tokens, 1 Gb/s",
        *("bert", 1, "1gbit", ABLATIONS),
        steps=8,
        turn=4,
        budget=360,
    ),
}

QUICK: dict[str, Cell] = {
    "bert-1x64-1gbit": replace(CELLS["bert-1x64-1gbit"], steps=6, budget=170),
    "mlp-1gbit": replace(CELLS["mlp-1gbit"], steps=4, budget=80),
}

# For the test of the race itself; not part of it.
TINY = Cell(
    *("Small MLP, batch 8, 100 Mb/s", "mlp-small", 8, "100mbit"),
    contenders=("compute", "ddp", "acpsgd"),
    rank=4,
    steps=4,
    turn=2,
    keep=True,
    budget=30,
)
