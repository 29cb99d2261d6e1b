"""A rank's progress: what it is doing, how far it is in it, and how long that usually takes. Its node's agent reads it.

All ranks pass the same sections in the same order, so the number of sections that a rank has begun is its position:
the rank with the smallest one is the one for which the others wait.

One record of fixed size, written in place into an open file. Nothing is flushed: writer and reader share one host's
page cache, also on a network file system.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.work_log import Work, WorkLog

_SIZE = 120
_WINDOW = 200
"""The number of last intervals from which `usual_s` is computed."""


class Section(StrEnum):
    """The phases of a rank that can take long."""

    START = "start"  # until the first step: imports, process groups, model, checkpoint
    DATA = "data"
    STEP = "step"
    SAVE = "save"
    EVALUATE = "evaluate"
    END = "end"
    SCRIPT = "script"  # between two steps that a user's own script reports


_QUANTILES = {Section.STEP: 0.99, Section.SCRIPT: 1.0, Section.DATA: 0.9, Section.SAVE: 0.9, Section.EVALUATE: 0.9}
"""Of the intervals of each section: one long one, in which something was compiled, must not count. A script may save
between two steps. The phases of a start and an end are too different to say anything about the next one."""

_WORK = {
    Section.START: Work.START,
    Section.DATA: Work.STEP,
    Section.STEP: Work.STEP,
    Section.SAVE: Work.SAVE,
    Section.EVALUATE: Work.EVALUATE,
    Section.END: Work.END,
    Section.SCRIPT: Work.SCRIPT,
}


@dataclass(frozen=True)
class RankProgress:
    """The newest progress record of one rank."""

    section: Section
    step: int
    position: int = 0  # sections begun so far
    signs: int = 0  # of progress within the section: batches, bytes, phases
    saved: int = 0  # bytes written by the thread that saves beside training
    usual_s: float = 0.0  # between two signs of this section, the slow ones included; 0 before there are any
    phase: str = ""  # of a start or an end, as text


class RankProgressWriter:
    """Writes a rank's progress. A mark costs a few microseconds; without a file it costs nothing.

    Rank 0 also has a `work_log`, the history of what it worked at.
    """

    def __init__(
        self, path: Path | None, clock: Callable[[], float] = time.monotonic, work_log: Path | None = None
    ) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
        self._file = os.open(path, flags, 0o600) if path is not None else None
        self._clock = clock
        self._lock = threading.Lock()  # the thread that saves writes, too
        self._now = RankProgress(Section.START, 0)
        self._last_sign = clock()
        self._step_began: float | None = None
        self._intervals: dict[Section, deque[float]] = {section: deque(maxlen=_WINDOW) for section in Section}
        self._usual_s = dict.fromkeys(Section, 0.0)
        self.work_log = WorkLog(work_log)

    def mark(self, section: Section, step: int, phase: str = "", work: Work | None = None) -> None:
        """Record that `section` begins now, after `step` finished steps; `work` is what it counts as, if not itself."""
        if self._file is None:
            return
        self.work_log.begin(work or _WORK[section])
        with self._lock:
            self._end_interval()
            if section not in (Section.DATA, Section.STEP):
                self._step_began = None
            usual_s, now = self._usual_s[section], self._now
            self._write(RankProgress(section, step, now.position + 1, 0, now.saved, usual_s, phase))

    def sign(self) -> None:
        """Record that there was progress within the section: a batch, a phase."""
        if self._file is None:
            return
        with self._lock:
            self._end_interval()
            now = self._now
            self._write(replace(now, signs=now.signs + 1, usual_s=self._usual_s[now.section]))

    def add_saved(self, num_bytes: int) -> None:
        """Record bytes that were saved; any thread may call it."""
        if self._file is None:
            return
        with self._lock:
            self._write(replace(self._now, saved=self._now.saved + num_bytes))

    def step_begins(self) -> None:
        """Measure the time since the last step; one with a save or an evaluation in between does not count."""
        now = self._clock()
        if self._step_began is not None:
            self._add_interval(Section.STEP, now - self._step_began)
        self._step_began = now

    def _end_interval(self) -> None:
        now = self._clock()
        if self._now.section in _QUANTILES and self._now.section is not Section.STEP:
            self._add_interval(self._now.section, now - self._last_sign)
        self._last_sign = now

    def _add_interval(self, section: Section, seconds: float) -> None:
        intervals = self._intervals[section]
        intervals.append(seconds)
        self._usual_s[section] = sorted(intervals)[int(_QUANTILES[section] * (len(intervals) - 1))]

    def _write(self, progress: RankProgress) -> None:
        self._now = progress
        assert self._file is not None
        p = progress
        record = f"{p.section} {p.step} {p.position} {p.signs} {p.saved} {p.usual_s:.6f} {p.phase}"
        os.pwrite(self._file, record[: _SIZE - 1].ljust(_SIZE - 1).encode() + b"\n", 0)


def read_rank_progress(path: Path) -> RankProgress | None:
    """Return a rank's progress; None before its first mark."""
    try:
        section, step, position, signs, saved, usual_s, *phase = read_bytes(path).decode("ascii").split()
        numbers = (int(step), int(position), int(signs), int(saved), float(usual_s))
        return RankProgress(Section(section), *numbers, " ".join(phase))
    except (OSError, ValueError):
        return None
