"""Trains with a loop of its own, without DistributedDataParallel: gradwire.Compressor by itself.

Every gradient starts on its way as soon as backward has computed it, and the step waits for all of
them before the optimizer uses them.

torchrun --nproc-per-node 2 examples/train_without_ddp.py --method topk
"""

import argparse

import gradwire
import torch
import torch.distributed as dist
from torch import nn


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", default="acpsgd", help="a name out of gradwire.methods()")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=32, help="samples per worker and step")
    return parser.parse_args()


def make_model(seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 10))


def main() -> None:
    args = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    worker = dist.get_rank()

    # The model learns what another one answers. All workers begin with the same weights.
    teacher, model = make_model(seed=1), make_model(seed=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    compressor = gradwire.Compressor(model.named_parameters(), args.method)

    def send(name: str, parameter: torch.Tensor) -> None:
        assert parameter.grad is not None
        compressor.start({name: parameter.grad})

    for name, parameter in model.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: send(name, p))

    samples = torch.Generator().manual_seed(100 + worker)  # of its own on every worker
    for step in range(1, args.steps + 1):
        x = torch.randn(args.batch, 64, generator=samples)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), teacher(x).detach())
        loss.backward()  # starts every gradient
        compressor.finish()  # now they hold the mean over the workers
        optimizer.step()
        if worker == 0 and step % (args.steps // 4) == 0:
            stats = compressor.stats()
            print(
                f"step {step:4}  loss {loss.item():.4f}  "
                f"{stats['sent_bytes'] / stats['steps'] / 1e3:.2f} kB/step sent  "
                f"compression {stats['code_ratio']:.1f}x",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
