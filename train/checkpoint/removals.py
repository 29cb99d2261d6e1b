"""Removing beside training: old checkpoints, and what is left of saves that failed.

Deleting can take as long as saving. A daemon thread does it, so that no save and no stop waits for it; what is left at
the end of the process is removed by the next one.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

log = logging.getLogger(__name__)


class Removals:
    """What is to be removed by this rank, one after the other in the order of the requests."""

    def __init__(self) -> None:
        self._requests: deque[Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self.num_files = 0  # removed so far

    def note_file(self) -> None:
        """Count a file that was removed."""
        self.num_files += 1

    def request(self, remove: Callable[[], object]) -> None:
        """Call `remove` in the thread. What it raises is logged."""
        with self._changed:
            self._requests.append(remove)
            self._changed.notify_all()
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="removals", daemon=True)
                self._thread.start()

    @property
    def outstanding(self) -> int:
        """The number of requests that are not done."""
        return len(self._requests)

    def wait(self, limit_s: float, at_most: int = 0) -> None:
        """Wait until `at_most` requests are outstanding, or for `limit_s`."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._requests) <= at_most, limit_s)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._requests)
            try:
                self._requests[0]()
            except Exception as error:  # of a disk, mostly; no save fails for it
                log.warning("not removed: %s", error)
            with self._changed:
                self._requests.popleft()
                self._changed.notify_all()
