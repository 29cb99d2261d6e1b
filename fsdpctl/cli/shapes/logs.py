"""Logs and errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from fsdpctl.contract.records import RankError


@dataclass(frozen=True)
class LogLine:
    """One line of a log."""

    time: float | None  # when it was written, in seconds since the epoch
    attempt: int
    source: Literal["supervisor", "agent", "torchrun", "rank", "state"]
    node: int | None  # node rank
    rank: int | None  # global rank
    text: str  # as it was written, without its newline


@dataclass(frozen=True)
class Failures:
    """Why an attempt failed. If no rank failed first, `first` is null and `text` has what the supervisor recorded."""

    run_id: str
    attempt: int
    text: str
    first: RankError | None
    followers: tuple[RankError, ...]  # those that failed after it
