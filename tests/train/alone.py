"""One rank, for tests of what ranks do together, without a process group."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch

from train.parallel.rank_info import Place
from train.parallel.world import World

T = TypeVar("T")


class Alone(World):
    """A world of one, without a process group."""

    def __init__(self) -> None:
        self.place = Place()
        self.device = torch.device("cpu")

    def on_main(self, work: Callable[[], T]) -> T:
        return work()

    def on_all(self, work: Callable[[], T]) -> list[T]:
        return [work()]
