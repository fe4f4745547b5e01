"""Trains a small convolutional network on Fashion-MNIST with stock DDP and compressed gradients.

torchrun --nproc-per-node 4 examples/train_fashion_mnist.py --method acpsgd --options rank=32
"""

import argparse
import ast
import gzip
import time
from pathlib import Path

import gradwire
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--method", default="acpsgd", help="a name out of gradwire.methods()")
    parser.add_argument(
        "--options", nargs="*", default=[], metavar="KEY=VALUE", help="of the method, e.g. rank=32"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=16, help="samples per worker and step")
    parser.add_argument("--lr", type=float, default=0.03)
    parser.add_argument("--train-limit", type=int, default=60000, help="training samples at most")
    parser.add_argument("--test-limit", type=int, default=10000, help="test samples at most")
    parser.add_argument("--data", type=Path, default=Path("/usr/share/datasets/fashion-mnist"))
    return parser.parse_args()


def parse_options(pairs: list[str]) -> dict:
    options = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        if not equals:
            raise SystemExit(f"--options: {pair!r} is not KEY=VALUE")
        try:
            options[key] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            options[key] = text  # a word, such as bf16
    return options


def read_idx(file: Path, sample_shape: tuple[int, ...]) -> torch.Tensor:
    """An IDX file of bytes: a magic number, the dimensions (4 bytes each), the data."""
    try:
        content = gzip.decompress(file.read_bytes())
    except (OSError, EOFError, gzip.zlib.error) as error:
        raise SystemExit(f"{file}: cannot be read: {error}") from error
    dimensions = 1 + len(sample_shape)
    header = [int.from_bytes(content[4 * i : 4 * i + 4], "big") for i in range(1 + dimensions)]
    samples = header[1]
    size = 4 * len(header) + samples * torch.Size(sample_shape).numel()
    if header[0] != 0x0800 + dimensions or tuple(header[2:]) != sample_shape:
        raise SystemExit(f"{file}: not an IDX file of samples of shape {sample_shape}")
    if samples == 0 or len(content) != size:
        raise SystemExit(f"{file}: its header promises {size} bytes; there are {len(content)}")
    data = torch.frombuffer(bytearray(content[4 * len(header) :]), dtype=torch.uint8)
    return data.reshape(samples, *sample_shape)


def load(folder: Path, part: str, limit: int) -> tuple[torch.Tensor, torch.Tensor]:
    images = read_idx(folder / f"{part}-images-idx3-ubyte.gz", (28, 28))
    labels = read_idx(folder / f"{part}-labels-idx1-ubyte.gz", ())
    if len(images) != len(labels):
        raise SystemExit(f"{folder}: {len(images)} {part} images, but {len(labels)} labels")
    return images[:limit].unsqueeze(1).float().div(255).sub(0.286).div(0.353), labels[:limit].long()


def make_model() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(32, 64, 3), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 5 * 5, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


@torch.no_grad()
def accuracy(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> float:
    guesses = torch.cat([model(part).argmax(1) for part in images.split(100)])
    return (guesses == labels).float().mean().item()


def main() -> None:
    args = arguments()
    options = parse_options(args.options)
    images, labels = load(args.data, "train", args.train_limit)
    test = load(args.data, "t10k", args.test_limit)
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    worker, workers = dist.get_rank(), dist.get_world_size()
    steps = len(labels) // (args.batch * workers)
    if steps == 0:
        raise SystemExit("there are fewer training samples than one step of all workers takes")

    ddp = DistributedDataParallel(make_model())
    gw = gradwire.attach(ddp, args.method, **options)  # the one line
    optimizer = torch.optim.SGD(ddp.parameters(), lr=args.lr, momentum=0.9)
    for epoch in range(1, args.epochs + 1):
        # All workers shuffle alike; each takes its own part of every global batch.
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        parts = order[: steps * workers * args.batch].view(steps, workers, args.batch)[:, worker]
        begin, losses = time.perf_counter(), 0.0
        for part in parts:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(ddp(images[part]), labels[part])
            loss.backward()
            optimizer.step()
            losses += loss.item()
        seconds = (time.perf_counter() - begin) / steps
        if worker == 0:
            stats = gw.stats()
            print(
                f"epoch {epoch:2}  loss {losses / steps:.4f}  "
                f"test accuracy {100 * accuracy(ddp.module, *test):5.2f} %  {seconds:.4f} s/step  "
                f"{stats['sent_bytes'] / stats['steps'] / 1e6:.4f} MB/step sent  "
                f"compression {stats['code_ratio']:.1f}x",
                flush=True,
            )
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
