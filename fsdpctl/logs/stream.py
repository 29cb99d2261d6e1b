"""The lines of one log file, with the time at which each was written."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator
from math import inf

from fsdpctl.contract.events import log_line
from fsdpctl.contract.log_times import Growth, TimesReader
from fsdpctl.contract.paths import times_of
from fsdpctl.logs.line import Line, LogFile
from fsdpctl.logs.stamp import parse_stamp
from fsdpctl.logs.tail import Tail

HOLD_S = 0.5
"""How long a line is held back while it is followed: until all agents have written when their logs grew."""
_SKEWED_S = 5.0
"""A line from further in the future is of a host whose clock is wrong: it is not held back."""


class Stream:
    """The lines of one file that may grow."""

    def __init__(self, file: LogFile, start: int = 0) -> None:
        self._file = file
        self._tail = Tail(file.path, start)
        self._times = TimesReader(times_of(file.path), start)
        self._stamp: float | None = None
        self._held: Line | None = None
        self._source: Iterator[Line] = iter(())  # what has arrived and follows the held line

    def lines(self, *, until: float, final: bool = False) -> Iterator[Line]:
        """Yield the lines since the last call that were written before `until`; with `final` all of them."""
        for source in (self._source, self._arrived(final=final)):
            self._source = source
            while (line := self._held or next(source, None)) is not None:
                self._held = line if not final and until <= (line.stamp or 0.0) < until + _SKEWED_S else None
                if self._held is not None:
                    return
                yield line

    def window(self, count: int, *, until: float, final: bool) -> Iterable[Line]:
        """Return the last `count` of these lines."""
        lines = deque(self.lines(until=until, final=final), maxlen=count)
        if lines and lines[-1].stamp is None:
            # A rank that only printed a traceback, at the file's last change. Without that stamp these lines
            # would come before all others, and a view of the last lines would not show them.
            return [line._replace(stamp=self._tail.mtime) for line in lines]
        return lines

    def _arrived(self, *, final: bool) -> Iterator[Line]:
        for growth in self._times.read():
            for text in self._poll(end=growth.end):
                yield self._line(text, self._place(parse_stamp(text, self._tail.mtime), growth))
        if not final and self._times.exists() and self._is_fresh():
            return  # the agent will look at the rest in a moment
        for text in self._poll(final=final):
            if (stamp := parse_stamp(text, self._tail.mtime)) is not None:
                self._stamp = stamp
            yield self._line(text, self._stamp)

    def _poll(self, *, end: int | None = None, final: bool = False) -> Iterator[str]:
        texts = self._tail.poll(end=end, final=final)
        return map(log_line, texts) if self._file.source == "supervisor" else texts

    def _line(self, text: str, stamp: float | None) -> Line:
        file = self._file
        return Line(file.node_rank, file.source, file.rank, stamp, text)

    def _place(self, own: float | None, growth: Growth) -> float:
        """Return when a line was written: by its own stamp, if that is between the two looks of the agent; else as
        early as the lines before it allow, so that a traceback stays with its first line."""
        earliest = max(growth.since, self._stamp or -inf)
        self._stamp = max(earliest, own) if own is not None and own <= growth.time else earliest
        return self._stamp

    def _is_fresh(self) -> bool:
        try:
            return abs(time.time() - self._file.path.stat().st_mtime) < HOLD_S
        except OSError:
            return False
