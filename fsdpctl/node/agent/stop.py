"""A stop on this node: the signal to its ranks, and the time after which they are ended by force."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.plan import StopSignal


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
