"""Errors of a file server that pass: they must not end ranks that train on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from fsdpctl.node.os.log import log

T = TypeVar("T")

RETRY_S = 0.1


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
            self._pass_over(error)
            return None
        self._since = None
        return value

    def retry(self, work: Callable[[], T], meanwhile: Callable[[], object]) -> T:
        """Return the value of `work` once it raises no OSError. Raise that one after `limit_s`."""
        while True:
            try:
                value = work()
            except OSError as error:
                self._pass_over(error)
            else:
                self._since = None
                return value
            meanwhile()
            time.sleep(RETRY_S)

    def _pass_over(self, error: OSError) -> None:
        """Log the first of several errors; raise one after `limit_s`."""
        if self._since is None:
            self._since = self._clock()
            log(f"passed over: {error}")
        if self._clock() - self._since > self._limit_s:
            raise error
