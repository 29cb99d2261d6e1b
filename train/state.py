"""What of a run must survive: weights and optimizer as named tensors, and what may not change under them.

All else is a function of the step: learning rate, data order, and the random numbers of dropout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from .errors import ConfigError

# These decide the shapes, or which samples the steps so far have seen.
FIXED = ("model", "batch.sequences", "seed")


def state_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Name every tensor to be saved. They share memory with the originals, so that loading fills those."""
    tensors = {}
    for name, parameter in model.named_parameters():
        tensors[f"model.{name}"] = parameter.detach()
        for key, value in optimizer.state[parameter].items():
            tensors[f"optimizer.{name}.{key}"] = value
    return tensors


def seed_dropout(seed: int, step: int, micro_step: int, rank: int) -> None:
    """Seed torch for one micro-step of one rank. A resumed run draws what a straight run draws, and no generator is
    saved; another number of ranks sees the same data under other dropout masks."""
    digest = hashlib.blake2b(f"{seed}/{step}/{micro_step}/{rank}".encode(), digest_size=8).digest()
    torch.manual_seed(int.from_bytes(digest, "little") >> 1)


def check_resumable(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Compare two encoded configurations: returns what changed, refuses a change that would not be the same run."""
    old, new = _flatten(saved), _flatten(now)
    changed = sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key))
    for key in changed:
        if any(key == fixed or key.startswith(f"{fixed}.") for fixed in FIXED) and key != "model.dropout":
            raise ConfigError(
                f"{key} is {new.get(key)!r}, but the checkpoint was made with {old.get(key)!r}: "
                f"that would be another run; start it in a new run directory"
            )
    return [f"{key}: {old.get(key)!r} -> {new.get(key)!r}" for key in changed]


def _flatten(value: Any, path: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {path: value}
    parts = (_flatten(item, f"{path}.{key}" if path else key) for key, item in value.items())
    return {key: item for part in parts for key, item in part.items()}
