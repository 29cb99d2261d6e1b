"""Find steps in the lines of a log. A pattern that takes too long for a line is not used any more."""

from __future__ import annotations

import re
import signal
from types import FrameType

from fsdpctl.node.progress.log_tail import LogLine
from fsdpctl.node.progress.step_report import StepReport, choose_values, parse_count, parse_number

MAX_CPU_S = 0.25
"""Processor time for one line: a pattern like (a+)+b takes longer than the training for some lines."""


class SlowPatternError(Exception):
    """A pattern took too long for a line."""


class LogMatcher:
    """Applies one pattern. For the main thread of a process, whose SIGVTALRM it takes."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern
        signal.signal(signal.SIGVTALRM, _raise_slow)  # the engine of `re` handles signals while it searches

    def find(self, line: LogLine) -> StepReport | None:
        """Return the step that a line reports; None if it reports none. Raise SlowPatternError."""
        found = self._search(line.text)
        step = parse_count(found["step"]) if found else None
        if found is None or step is None:
            return None
        groups = found.groupdict()
        values = choose_values({name: parse_number(text) for name, text in groups.items()})
        return StepReport(step, line.time, values, parse_count(groups.get("total")))

    def _search(self, text: str) -> re.Match[str] | None:
        signal.setitimer(signal.ITIMER_VIRTUAL, MAX_CPU_S)
        try:
            return self._pattern.search(text)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _raise_slow(_number: int, _frame: FrameType | None) -> None:
    raise SlowPatternError
