"""How long a node's heartbeat was seen to stand still. Time in which nothing can be seen does not count."""

from __future__ import annotations

import time
from collections.abc import Callable

from fsdpctl.backends.ssh.sync.host_files import Stamp


class HeartbeatAge:
    """Fed by the one who looks, asked by others."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat: Stamp | None = None
        self._since: float | None = None
        self._last = clock()

    def update(self, beat: Stamp | None, *, begun: bool) -> None:
        """The node was looked at. `begun`: its agent stands, so that a heartbeat may be expected."""
        self._last = self._clock()
        if not begun or self._since is None or beat != self._beat:
            self._beat, self._since = beat, self._last

    def mark_unseen(self) -> None:
        """The node could not be looked at."""
        self._since = None

    def seconds(self) -> float:
        since = self._since
        return self._last - since if since is not None else 0.0
