"""For which runs a cache of the compiler is good.

The compiler compares each graph itself, so a key that is too coarse costs a compilation, and never a result. The number
of ranks is left out: FSDP gathers what a graph gets, and a restart on fewer nodes finds its graphs again.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterator
from pathlib import Path

import torch

from fsdpctl.contract.trainer.trainer_config import TrainerConfig

SOURCES = ("model", "parallel")
"""The folders of the trainer from which graphs are made."""


def compute_key(config: TrainerConfig, micro_batch: int, num_ranks: int, device: torch.device) -> str:
    """Return a digest of sources, shapes, versions and the card."""
    shapes = (config.model, config.memory, config.mesh.strategy, config.mesh.units, config.precision, config.float8)
    batch = (config.data.attention, micro_batch, num_ranks > 1)
    parts = (*shapes, *batch, torch.__version__, platform.python_version(), describe_card(device))
    digest = hashlib.sha256(repr(parts).encode())
    for source in _sources(Path(__file__).parents[1]):
        digest.update(source)
    return digest.hexdigest()[:16]


def describe_card(device: torch.device) -> str:
    """Return what kernels are compiled for: the GPU, or the instructions of this processor."""
    if device.type == "cuda":
        return f"{torch.cuda.get_device_name(device)} {torch.cuda.get_device_capability(device)}"
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return f"{platform.machine()} {flags}"


def _sources(package: Path) -> Iterator[bytes]:
    for path in sorted(path for folder in SOURCES for path in (package / folder).rglob("*.py")):
        yield str(path.relative_to(package)).encode()
        yield path.read_bytes()
