"""Errors of a file server that pass: they must not end ranks that train on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class Patience:
    """Passes over an OSError unless there is one at each call for longer than `limit_s`."""

    def __init__(self, limit_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s, self._clock = limit_s, clock
        self._since: float | None = None

    def call(self, look: Callable[[], T]) -> T | None:
        """Return the value of `look`; None where it raised an OSError. Raise that one after `limit_s`."""
        try:
            value = look()
        except OSError as error:
            if self._since is None:
                self._since = self._clock()
                print(f"passed over: {error}", flush=True)
            if self._clock() - self._since > self._limit_s:
                raise
            return None
        self._since = None
        return value
