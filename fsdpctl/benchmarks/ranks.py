"""The ranks of a benchmark, and what they exchange besides what is measured."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta

import torch
import torch.distributed as dist

TIMEOUT = timedelta(seconds=120)
"""Of a collective: longer than any that is measured, and short enough for a user who waits."""


class Ranks:
    """All ranks, each with its device. Members of pairs are nodes, or ranks where there is one node only."""

    def __init__(self, *, on_gpus: bool = True) -> None:
        self.rank, self.size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self.local_rank, self.per_node = int(os.environ["LOCAL_RANK"]), int(os.environ["LOCAL_WORLD_SIZE"])
        self.device = _pick_device(self.local_rank) if on_gpus else torch.device("cpu")
        backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
        dist.init_process_group(backend, timeout=TIMEOUT)

    @property
    def num_nodes(self) -> int:
        return self.size // self.per_node

    @property
    def per_member(self) -> int:
        """Return the ranks of one member."""
        return self.per_node if self.num_nodes > 1 else 1

    @property
    def num_members(self) -> int:
        return self.size // self.per_member

    @property
    def member(self) -> int:
        return self.rank // self.per_member

    def rank_in(self, member: int) -> int:
        """Return the rank of another member with which this rank exchanges data."""
        return member * self.per_member + self.rank % self.per_member

    def gather(self, value: float) -> list[float]:
        """Return the value of each rank, on all ranks."""
        values = torch.zeros(self.size, dtype=torch.float64)
        dist.all_gather_into_tensor(values, torch.tensor([value], dtype=torch.float64))
        return [float(one) for one in values]

    def gather_objects(self, value: object) -> list[object]:
        values: list[object] = [None] * self.size
        dist.all_gather_object(values, value)
        return values

    def maximum(self, value: float) -> float:
        return max(self.gather(value))

    def barrier(self) -> None:
        """Wait for all ranks, on the CPU: kernels on GPUs may still run."""
        self.gather(0.0)

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def close(self) -> None:
        dist.destroy_process_group()


def slowest_of(values: Sequence[float], per_member: int) -> list[float]:
    """Return the largest value of each member's ranks."""
    return [max(values[at : at + per_member]) for at in range(0, len(values), per_member)]


def _pick_device(local_rank: int) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)
