"""One rank, for tests of what ranks do together, without a process group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from train.parallel.rank_info import RankInfo
from train.parallel.world import World

T = TypeVar("T")


class SingleRank(World):
    """A world of one, without a process group."""

    def __init__(self) -> None:
        self.rank_info, self.rank, self.members = RankInfo(), 0, range(1)
        self.device = torch.device("cpu")

    def on_main(self, work: Callable[[], T]) -> T:
        return work()

    def on_all(self, work: Callable[[], T]) -> list[T]:
        return [work()]
