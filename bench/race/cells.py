"""The cells of the race. Each has a model, a batch, a rate, a number of workers and contenders."""

from __future__ import annotations

from dataclasses import dataclass, replace

import gradwire

EVERYONE = (
    "compute", "ddp", *gradwire.methods(), "sign-vote", "acpsgd-bf16",
    "torch-fp16", "torch-powersgd", "epfml-powersgd",
)  # fmt: skip
LOW_RANK = ("compute", "ddp", "powersgd", "acpsgd", "acpsgd-bf16", "torch-powersgd")
GATHERED = ("ddp-gathered", "powersgd-gathered", "acpsgd-gathered")
ABLATIONS = (
    "compute", "ddp", "ddp-unfused", "ddp-no-overlap",
    "powersgd", "powersgd-unfused", "powersgd-no-overlap",
    "acpsgd", "acpsgd-unfused", "acpsgd-no-overlap", *GATHERED,
)  # fmt: skip


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
    turn: int = 6  # timed steps of a turn; even, so that P and Q steps weigh the same
    # Whether contenders stay alive between their turns. That allows short turns but takes memory
    # for all of them. It must be False if some gather, which replaces the process's all-reduce.
    keep: bool = False
    budget: int = 400  # seconds


def without(*left_out: str) -> tuple[str, ...]:
    return tuple(name for name in EVERYONE if name not in left_out)


# All cells together, with the time to start them, take less than 90 minutes.
CELLS: dict[str, Cell] = {
    "bert-4x64-250mbit": Cell(
        "BERT-Base, batch 4 x 64 tokens, 250 Mb/s",
        model="bert",
        batch=4,
        rate="250mbit",
        contenders=(*LOW_RANK, "torch-fp16"),
        steps=20,
        turn=2,
        keep=True,
        budget=1200,
    ),
    "bert-1x64-1gbit": Cell(
        "BERT-Base, batch 1 x 64 tokens, 1 Gb/s",
        model="bert",
        batch=1,
        rate="1gbit",
        contenders=LOW_RANK,
        steps=20,
        turn=2,
        keep=True,
        budget=360,
    ),
    "bert-1x64-1gbit-others": Cell(
        "BERT-Base, batch 1 x 64 tokens, 1 Gb/s: other methods",
        model="bert",
        batch=1,
        rate="1gbit",
        contenders=without("allreduce", *LOW_RANK[2:]),
        steps=12,
        turn=4,
        keep=True,
        budget=420,
    ),
    "bert-1x64-100mbit": Cell(
        "BERT-Base, batch 1 x 64 tokens, 100 Mb/s",
        model="bert",
        batch=1,
        rate="100mbit",
        contenders=LOW_RANK,
        steps=20,
        turn=2,
        keep=True,
        budget=780,
    ),
    "bert-4x64-100mbit": Cell(
        "BERT-Base, batch 4 x 64 tokens, 100 Mb/s",
        model="bert",
        batch=4,
        rate="100mbit",
        contenders=("compute", "sign", "topk", "adacomp", "acpsgd"),
        steps=16,
        turn=2,
        keep=True,
        budget=300,
    ),
    "bert-1x64-10gbit": Cell(
        "BERT-Base, batch 1 x 64 tokens, 10 Gb/s",
        model="bert",
        batch=1,
        rate="10gbit",
        contenders=(*LOW_RANK, "auto", "torch-fp16"),
        steps=16,
        turn=4,
        keep=True,
        budget=280,
    ),
    "bert-1x64-unlimited": Cell(
        "BERT-Base, batch 1 x 64 tokens, unlimited link",
        model="bert",
        batch=1,
        rate="unlimited",
        contenders=("compute", "ddp", "allreduce", "acpsgd", "auto"),
        steps=24,
        turn=4,
        keep=True,
        budget=280,
    ),
    "resnet50-1gbit": Cell(
        "ResNet-50, batch 4, 1 Gb/s",
        model="resnet50",
        batch=4,
        rate="1gbit",
        contenders=without("acpsgd-bf16", "torch-fp16"),
        rank=4,
        steps=12,
        turn=4,
        keep=True,
        budget=480,
    ),
    "lstm-100mbit": Cell(
        "LSTM 2 x 650, batch 20, 100 Mb/s",
        model="lstm",
        batch=20,
        rate="100mbit",
        contenders=without("allreduce", "half", "sign-vote"),
        steps=12,
        turn=4,
        keep=True,
        budget=330,
    ),
    "mlp-1gbit": Cell(
        "MLP, batch 128, 1 Gb/s",
        model="mlp",
        batch=128,
        rate="1gbit",
        steps=16,
        turn=4,
        keep=True,
        budget=135,
    ),
    "bert-1x64-1gbit-4workers": Cell(
        "BERT-Base, batch 1 x 64 tokens, 1 Gb/s, 4 workers",
        model="bert",
        batch=1,
        rate="1gbit",
        contenders=(*LOW_RANK, *GATHERED),
        workers=4,
        steps=8,
        turn=4,
        budget=420,
    ),
    "ablation-1gbit": Cell(
        "Ablation: BERT-Base, batch 1 x 64 tokens, 1 Gb/s",
        model="bert",
        batch=1,
        rate="1gbit",
        contenders=ABLATIONS,
        steps=8,
        turn=4,
        budget=360,
    ),
}

QUICK: dict[str, Cell] = {
    "bert-1x64-1gbit": replace(CELLS["bert-1x64-1gbit"], steps=6, budget=170),
    "mlp-1gbit": replace(CELLS["mlp-1gbit"], steps=4, budget=80),
}

# A test runs this cell. It is not part of the race.
TINY = Cell(
    "Small MLP, batch 8, 100 Mb/s",
    model="mlp-small",
    batch=8,
    rate="100mbit",
    contenders=("compute", "ddp", "acpsgd"),
    rank=4,
    steps=4,
    turn=2,
    keep=True,
    budget=30,
)
