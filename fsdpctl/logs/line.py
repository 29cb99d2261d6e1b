"""The two values that these modules exchange: a log file of one attempt, and a line of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

Source = Literal["supervisor", "agent", "torchrun", "rank", "state"]


@dataclass(frozen=True)
class LogFile:
    """One log file and its writer; `rank` is the global rank, None unless the source is a rank."""

    node_rank: int | None  # None for the supervisor
    source: Source
    rank: int | None
    path: Path


class Line(NamedTuple):
    """One line of a log. A tuple, because a whole run has millions of them."""

    node_rank: int | None
    source: Source
    rank: int | None
    stamp: float | None  # seconds since the epoch, when it was written; None if that is not known
    text: str
