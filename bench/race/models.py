"""The models of the race, with random weights and random data. Nothing is downloaded."""

from __future__ import annotations

import os
from collections.abc import Callable

import torch
from torch import nn

# Otherwise transformers looks for files on the network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

TOKENS = 64  # per sequence of BERT
Batch = dict[str, torch.Tensor]


class WithLoss(nn.Module):
    """Returns the cross-entropy, as the models of transformers do when they are given labels."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.model(x).flatten(0, -2), labels.flatten())


class LanguageModel(nn.Module):
    """The medium LSTM of Zaremba et al. (2014): 2 layers of 650."""

    def __init__(self, vocabulary: int = 10_000, width: int = 650) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, batch_first=True, dropout=0.5)
        self.decoder = nn.Linear(width, vocabulary)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.lstm(self.embedding(tokens))[0])


def bert() -> nn.Module:
    from transformers import BertConfig, BertForMaskedLM

    return BertForMaskedLM(BertConfig())


def bert_batch(size: int, generator: torch.Generator) -> Batch:
    tokens = torch.randint(30_522, (size, TOKENS), generator=generator)
    return {"input_ids": tokens, "labels": tokens}


def resnet50() -> nn.Module:
    from transformers import ResNetConfig, ResNetForImageClassification

    return ResNetForImageClassification(ResNetConfig(num_labels=1000))


def resnet50_batch(size: int, generator: torch.Generator) -> Batch:
    return {
        "pixel_values": torch.randn(size, 3, 224, 224, generator=generator),
        "labels": torch.randint(1000, (size,), generator=generator),
    }


def lstm() -> nn.Module:
    return WithLoss(LanguageModel())


def lstm_batch(size: int, generator: torch.Generator) -> Batch:
    tokens = torch.randint(10_000, (size, 36), generator=generator)
    return {"x": tokens[:, :-1], "labels": tokens[:, 1:]}


def mlp(width: int = 4096) -> nn.Module:
    layers = [nn.Linear(1024, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return WithLoss(nn.Sequential(*layers, nn.Linear(width, 10)))


def mlp_batch(size: int, generator: torch.Generator) -> Batch:
    return {
        "x": torch.randn(size, 1024, generator=generator),
        "labels": torch.randint(10, (size,), generator=generator),
    }


MODELS: dict[str, tuple[Callable[[], nn.Module], Callable[[int, torch.Generator], Batch]]] = {
    "bert": (bert, bert_batch),
    "resnet50": (resnet50, resnet50_batch),
    "lstm": (lstm, lstm_batch),
    "mlp": (mlp, mlp_batch),
    "mlp-small": (lambda: mlp(256), mlp_batch),
}


def make_model(name: str) -> nn.Module:
    """Makes a model with the same weights on every worker."""
    torch.manual_seed(0)
    return MODELS[name][0]()


def make_batches(name: str, size: int, worker: int, count: int = 4) -> list[Batch]:
    generator = torch.Generator().manual_seed(1 + worker)
    return [MODELS[name][1](size, generator) for _ in range(count)]


def loss_of(outcome: object) -> torch.Tensor:
    return outcome if isinstance(outcome, torch.Tensor) else outcome.loss
