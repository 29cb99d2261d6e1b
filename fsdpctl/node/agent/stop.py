"""A stop on this node: the signal to its ranks, and the time after which they are ended by force; the time limit."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from fsdpctl.contract import StopReason
from fsdpctl.contract.control_files import ControlFile, write_request
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.plan import LaunchPlan, StopSignal


class Stopping:
    """Measures the grace from the moment this node saw the stop file, when its ranks get their signal."""

    def __init__(self, grace_s: float, stop_signal: StopSignal, find_ranks: Callable[[], dict[int, int]]) -> None:
        self.signal = None if stop_signal == "none" else signal.Signals[f"SIG{stop_signal}"]
        self._grace_s, self._find_ranks = grace_s, find_ranks
        self._since: float | None = None

    def follow(self, stop: ControlFile | None) -> None:
        """Begin the stop at the first call with a stop file."""
        if stop is None or self._since is not None:
            return
        self._since = time.monotonic()
        if self.signal is not None:
            for pid in self._find_ranks().values():
                with suppress(ProcessLookupError):
                    os.kill(pid, self.signal)

    @property
    def has_signalled(self) -> bool:
        """Whether ranks may end by a signal without having failed."""
        return self._since is not None and self.signal is not None

    def is_over(self) -> bool:
        """Return whether the grace is over."""
        return self._since is not None and time.monotonic() - self._since > self._grace_s


class TimeLimit:
    """The time limit of a run that no scheduler ends: the head requests a stop when it is near."""

    def __init__(self, plan: LaunchPlan, attempt: AttemptPaths, node_rank: int) -> None:
        """Begin to measure."""
        is_own = node_rank == 0 and not plan.is_limited_by_scheduler
        self._limit_s = plan.time_limit_s if is_own else None
        self._grace_s, self._stop = plan.grace_s, attempt.stop
        self._started = time.monotonic()

    def look(self) -> None:
        """Write the stop file if the limit is near, unless there is one. Raise OSError."""
        if self._limit_s is None or time.monotonic() - self._started <= self._limit_s - self._grace_s:
            return
        if not self._stop.exists():
            write_request(self._stop, StopReason.TIME, f"the time limit of {self._limit_s} s is near")
