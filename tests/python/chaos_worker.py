"""One worker of a training that may be killed at any moment and can be started again.

    python chaos_worker.py FOLDER STEPS VARIANT...

It saves a checkpoint after every step. When it starts, it goes on from the last step that all
workers have saved.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import timedelta
from pathlib import Path

import gradwire
import torch
import torch.distributed as dist
from training import Training

KEPT = 3  # checkpoints; a worker may be one step ahead of another


def last_common_step(folder: Path, worker: int) -> int:
    own = {int(path.stem.split("-")[1]) for path in folder.glob(f"worker{worker}-*.pt")}
    everyones: list[set[int]] = [set()] * dist.get_world_size()
    dist.all_gather_object(everyones, own)
    return max(set.intersection(*everyones), default=0)


def main() -> None:
    folder, steps, variants = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=15))
    worker = dist.get_rank()
    trainings = {variant: Training(variant, bucket_cap_mb=0.03) for variant in variants}
    done = last_common_step(folder, worker)
    if done > 0:
        file = folder / f"worker{worker}-{done}.pt"
        for variant, checkpoint in torch.load(file, weights_only=True).items():
            trainings[variant].load(checkpoint)
    (folder / f"ready-{os.getpid()}").touch()
    for step in range(done, steps):
        for training in trainings.values():
            training.step(worker, step)
        gradwire.save(
            {variant: training.checkpoint() for variant, training in trainings.items()},
            folder / f"worker{worker}-{step + 1}.pt",
        )
        (folder / f"worker{worker}-{step + 1 - KEPT}.pt").unlink(missing_ok=True)
    gradwire.save(
        {variant: training.weights() for variant, training in trainings.items()},
        folder / f"final{worker}.pt",
    )
    dist.barrier()


if __name__ == "__main__":
    try:
        main()
    except RuntimeError:
        # torch aborts if the interpreter ends while a thread of Gloo frees a failed all-reduce.
        time.sleep(0.2)
        raise
