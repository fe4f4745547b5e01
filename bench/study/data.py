"""Data for the study. Nothing is downloaded."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import numpy

ROOT = Path(__file__).resolve().parents[2]
FASHION = Path("/usr/share/datasets/fashion-mnist")
CIFAR_BATCH = 10000
STAND_IN = "fashion-as-cifar10"  # the name of the folder shows in the results


def data_argument(kind: str, folder: Path, given: Path | None) -> str:
    """Returns the value of `--data`: the user's own data of this kind, or data made here."""
    make = {"text": text_file, "cifar10": fashion_as_cifar10}
    return f"{kind}:{given or make[kind](folder)}" if kind in make else kind


def text_file(folder: Path) -> Path:
    """Makes a text from the project's own files."""
    file = folder / "text.txt"
    if not file.exists():
        sources = sorted((ROOT / "docs").glob("*.md")) + sorted((ROOT / "src").rglob("*.cpp"))
        file.write_bytes(b"".join(path.read_bytes() for path in sources))
    return file


def images_and_labels(part: str) -> tuple[numpy.ndarray, numpy.ndarray]:
    def read(name: str, header: int) -> numpy.ndarray:
        with gzip.open(FASHION / f"{part}-{name}-ubyte.gz") as file:
            return numpy.frombuffer(file.read(), numpy.uint8, offset=header)

    return read("images-idx3", 16).reshape(-1, 28, 28), read("labels-idx1", 8)


def fashion_as_cifar10(folder: Path) -> Path:
    """Makes colour images from Fashion-MNIST, with 32 x 32 pixels and a shade in each plane."""
    target = folder / STAND_IN
    if target.exists():
        return target
    print("there is no CIFAR-10 (--cifar10 DIR): Fashion-MNIST in its format takes its place")
    unfinished = folder / f"{STAND_IN}.new"
    unfinished.mkdir(exist_ok=True)
    for part, names in (
        ("train", [f"data_batch_{i}.bin" for i in range(1, 6)]),
        ("t10k", ["test_batch.bin"]),
    ):
        images, labels = images_and_labels(part)
        framed = numpy.pad(images, ((0, 0), (2, 2), (2, 2)))
        planes = numpy.stack([framed, framed // 2, 255 - framed], 1).reshape(len(images), -1)
        records = numpy.concatenate([labels[:, None], planes], 1)
        for index, name in enumerate(names):
            batch = records[index * CIFAR_BATCH : (index + 1) * CIFAR_BATCH]
            (unfinished / name).write_bytes(batch.tobytes())
    os.rename(unfinished, target)
    return target
