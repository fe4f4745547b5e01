"""One worker of test_huggingface.py. A launcher starts it with begin or resume, and FOLDER."""

import os
import sys
from pathlib import Path

import gradwire
import torch
from accelerate import Accelerator
from gradwire.huggingface import attach_prepared, attach_trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

STEPS = 8
# The options of gradwire and those of the Trainer.
TRAINER_VARIANTS = {
    "topk": ({"method": "topk", "density": 0.05}, {}),
    "acpsgd": ({"method": "acpsgd", "rank": 2}, {"gradient_accumulation_steps": 2}),
    "compiled": (
        {"method": "sign"},
        {"torch_compile": True, "torch_compile_backend": "aot_eager"},
    ),
}
ACCELERATE_VARIANTS = {
    "adacomp": {"method": "adacomp"},
    "powersgd": {"method": "powersgd", "rank": 2},
}


def outcome_of(model: nn.Module, gw: gradwire.Attachment) -> dict:
    return {
        "weights": [p.detach().clone() for p in model.parameters()],
        "stats": gw.stats(),
        "residual_norm": gw.residual_norm(),
    }


def with_trainer(variant: str, folder: Path, resume: bool) -> dict:
    options, trainer_options = TRAINER_VARIANTS[variant]
    torch.manual_seed(7)
    model = BertForSequenceClassification(
        BertConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, vocab_size=50,
                   intermediate_size=64, max_position_embeddings=16)
    )  # fmt: skip
    tokens = torch.randint(50, (64, 8), generator=torch.Generator().manual_seed(1))
    data = [{"input_ids": row, "labels": int(row[0]) % 2} for row in tokens]
    # The resumed run writes to another folder, so it must be told where to read.
    output = folder / ("resumed" if resume else "begun") / variant
    arguments = TrainingArguments(
        output_dir=output, max_steps=STEPS, save_steps=STEPS // 2, per_device_train_batch_size=2,
        use_cpu=True, report_to="none", disable_tqdm=True, logging_steps=STEPS, **trainer_options,
    )  # fmt: skip
    trainer = Trainer(model, arguments, train_dataset=data)
    callback = attach_trainer(trainer, **options)
    checkpoint = folder / "begun" / variant / f"checkpoint-{STEPS // 2}"
    trainer.train(str(checkpoint) if resume else None)
    return outcome_of(model, callback.gw)


def with_accelerate(variant: str, folder: Path, resume: bool) -> dict:
    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    # Accelerate makes a scaler only on a GPU. The scale changes right after the saved step.
    accelerator.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=5)
    torch.manual_seed(7)
    net = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 10))
    x = torch.randn(128, 32, generator=torch.Generator().manual_seed(1))
    batches = DataLoader(TensorDataset(x, torch.arange(128) % 10), batch_size=4)
    model, optimizer, batches = accelerator.prepare(
        net, torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9), batches
    )
    gw = attach_prepared(accelerator, model, **ACCELERATE_VARIANTS[variant])
    checkpoint = folder / "accelerate" / variant
    if resume:
        accelerator.load_state(checkpoint)
        batches = accelerator.skip_first_batches(batches, len(batches) // 2)
    for index, (inputs, labels) in enumerate(batches):
        if index == len(batches) // 2 and not resume:
            accelerator.save_state(checkpoint)
        with accelerator.accumulate(model):
            accelerator.backward(nn.functional.cross_entropy(model(inputs), labels))
            optimizer.step()
            optimizer.zero_grad()
    return outcome_of(net, gw)


if __name__ == "__main__":
    what, folder = sys.argv[1], Path(sys.argv[2])
    outcome = {}
    for variant in TRAINER_VARIANTS:
        outcome[variant] = with_trainer(variant, folder, what == "resume")
    for variant in ACCELERATE_VARIANTS:
        outcome[variant] = with_accelerate(variant, folder, what == "resume")
    torch.save(outcome, folder / f"{what}-{os.environ['RANK']}-of-{os.environ['WORLD_SIZE']}.pt")
