"""What of a run must survive: weights and optimizer as named tensors, and what may not change under them.

All else is a function of the step: learning rate, data order, and the random numbers of dropout.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fsdpctl.contract.trainer.resumable import compare
from train.errors import ConfigError
from train.model.language_model import LanguageModel
from train.nonfinite import NonFiniteGuard
from train.parallel.float8 import master_weight


@dataclass(frozen=True)
class TrainState:
    """What changes with every step."""

    model: LanguageModel
    optimizer: torch.optim.Optimizer
    guard: NonFiniteGuard

    def tensors(self) -> dict[str, Tensor]:
        """Name every tensor to be saved. They share memory with the originals, so that loading fills those."""
        tensors = self.guard.tensors()
        for name, parameter in self.model.named_parameters():
            tensors[f"model.{name}"] = master_weight(parameter)
            for key, value in self.optimizer.state.get(parameter, {}).items():
                tensors[f"optimizer.{name}.{key}"] = value
        return tensors

    def tensors_to_start_from(self, with_optimizer: bool) -> dict[str, Tensor]:
        """Name those that another run's state can fill: the model's, and those of the optimizer if asked for."""
        kinds = ("model.", "optimizer.") if with_optimizer else ("model.",)
        return {name: tensor for name, tensor in self.tensors().items() if name.startswith(kinds)}


def seed_dropout(device: torch.device, seed: int, step: int, micro_step: int, rank: int) -> None:
    """Seed the device's generator for one micro-step of one rank.

    A resumed run draws what a straight run draws, and no generator is saved. Another number of ranks sees the same data
    under other dropout masks.
    """
    digest = hashlib.blake2b(f"{seed}/{step}/{micro_step}/{rank}".encode(), digest_size=8).digest()
    # `torch.manual_seed` seeds every kind of device, and for each that is not in use formats its stack: 0.2 ms.
    seed_device = torch.cuda.manual_seed if device.type == "cuda" else torch.default_generator.manual_seed
    seed_device(int.from_bytes(digest, "little") >> 1)


def check_resumable(saved: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Compare two encoded configurations and return what changed.

    Raises ConfigError for a change that would make it another run.
    """
    changed, forbidden = compare(saved, now)
    if forbidden:
        raise ConfigError(f"{forbidden[0]} since the checkpoint: that would be another run; submit it as one")
    return changed
