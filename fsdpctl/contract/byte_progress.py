"""How far a long piece of work is, as calls."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""Takes what is done, and how many bytes of how many."""

Report = Callable[[int], None]
"""Takes a number of bytes that have just been done."""


def ignore(what: str, done: int, total: int) -> None:
    """The Progress of whoever does not care."""


class Meter:
    """A Report that adds up to Progress."""

    def __init__(self, progress: Progress, what: str, total: int, done: int = 0) -> None:
        self._progress, self._what, self._total, self._done = progress, what, total, done
        self(0)

    def __call__(self, num_bytes: int) -> None:
        self._done += num_bytes
        self._progress(self._what, min(self._done, self._total), self._total)
