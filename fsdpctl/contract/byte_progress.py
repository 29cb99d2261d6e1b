"""Progress of long work, reported through callbacks in bytes."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Takes the name of the work, the bytes done and the bytes in total."""

Report = Callable[[int], None]
"""Takes the number of bytes just done."""


def ignore(what: str, done: int, total: int) -> None:
    """Do nothing: a Progress for callers that show none."""


class Meter:
    """A Report that sums bytes and calls a Progress with the total."""

    def __init__(self, progress: Progress, what: str, total: int, done: int = 0) -> None:
        self._progress, self._what, self._total, self._done = progress, what, total, done
        self(0)

    def __call__(self, num_bytes: int) -> None:
        self._done += num_bytes
        self._progress(self._what, min(self._done, self._total), self._total)
