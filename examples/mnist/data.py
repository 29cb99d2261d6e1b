"""Digits with their labels, as 28 x 28 pixels: MNIST's files, or those that come with scikit-learn."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Digits:
    images: Tensor  # (N, 1, 28, 28), 0 to 1
    labels: Tensor  # (N,)

    def __getitem__(self, chosen: Tensor | slice) -> Digits:
        return Digits(self.images[chosen], self.labels[chosen])

    def __len__(self) -> int:
        return len(self.labels)

    def to(self, device: torch.device) -> Digits:
        return Digits(self.images.to(device), self.labels.to(device))


def load(directory: Path | None) -> tuple[Digits, Digits]:
    """Return digits for training and for testing: of MNIST's four files, or without a directory of scikit-learn."""
    return (_from_idx(directory, "train"), _from_idx(directory, "t10k")) if directory else _from_sklearn()


def _from_idx(directory: Path, part: str) -> Digits:
    images = _read_idx(directory / f"{part}-images-idx3-ubyte")
    return Digits(images[:, None].float() / 255, _read_idx(directory / f"{part}-labels-idx1-ubyte").long())


def _read_idx(path: Path) -> Tensor:
    """Read an idx file of bytes, compressed or not: two zeros, the type, the number of sizes, the sizes, the bytes."""
    packed = path.with_name(f"{path.name}.gz")
    if not path.exists() and not packed.exists():
        raise SystemExit(f"no file {path}, with or without .gz; without --data the digits of scikit-learn are taken")
    content = path.read_bytes() if path.exists() else gzip.decompress(packed.read_bytes())
    end = 4 + 4 * content[3]
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, end, 4)]
    return torch.frombuffer(bytearray(content[end:]), dtype=torch.uint8).view(sizes)


def _from_sklearn() -> tuple[Digits, Digits]:
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        hint = "pip install scikit-learn, or give the directory of MNIST's four idx files: --data DIR"
        raise SystemExit(f"no digits to train on: {hint}") from None
    found = load_digits()
    images = torch.tensor(found.images, dtype=torch.float32)[:, None] / 16
    digits = Digits(F.interpolate(images, size=28, mode="bilinear"), torch.tensor(found.target))
    return digits[:-300], digits[-300:]
