"""A rank's progress: what it is doing, since when, and how long its steps take. The agent of its node reads it.

One record of fixed size, written in place into an open file. Nothing is flushed: writer and reader share one host's
page cache, also on a network file system. Times are those of the host's monotonic clock.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from fsdpctl.contract.files import read_bytes

_SIZE = 80
_WINDOW = 200
"""The number of last steps from which `slow_step_s` is computed."""


class Section(StrEnum):
    """The phases of a rank that can take long."""

    START = "start"  # until the first step is done: imports, rendezvous, compiling
    DATA = "data"
    STEP = "step"
    SAVE = "save"
    EVALUATE = "evaluate"
    END = "end"


@dataclass(frozen=True)
class RankProgress:
    """The newest progress record of one rank."""

    section: Section
    step: int
    since: float  # monotonic seconds
    slow_step_s: float  # the 99th percentile of its last steps; 0 before there are any


class RankProgressWriter:
    """Writes a rank's progress. A mark costs a few microseconds; without a file it costs nothing."""

    def __init__(self, path: Path | None, clock: Callable[[], float] = time.monotonic) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._file = os.open(path, flags, 0o600) if path is not None else None
        self._clock = clock
        self._steps: deque[float] = deque(maxlen=_WINDOW)
        self._slow_step_s = 0.0
        self._step_began: float | None = None

    def mark(self, section: Section, step: int) -> None:
        """Record that `section` begins now, after `step` finished steps."""
        if self._file is None:
            return
        now = self._clock()
        if section not in (Section.DATA, Section.STEP):
            self._step_began = None
        record = f"{section} {step} {now:.6f} {self._slow_step_s:.6f}"
        os.pwrite(self._file, record.ljust(_SIZE - 1).encode() + b"\n", 0)

    def step_begins(self) -> None:
        """Measure the time since the last step; one with a save or an evaluation in between does not count."""
        now = self._clock()
        if self._step_began is not None:
            self._steps.append(now - self._step_began)
            self._slow_step_s = sorted(self._steps)[int(0.99 * (len(self._steps) - 1))]
        self._step_began = now


def read_rank_progress(path: Path) -> RankProgress | None:
    """Return a rank's progress; None before its first mark."""
    try:
        section, step, since, slow = read_bytes(path).decode("ascii").split()
        return RankProgress(Section(section), int(step), float(since), float(slow))
    except (OSError, ValueError):
        return None
