"""The time since a node's heartbeat last changed. Time in which the node is unreachable does not count."""

from __future__ import annotations

import time
from collections.abc import Callable

from fsdpctl.backends.ssh.sync.host_files import Stamp


class HeartbeatAge:
    """Updated by the node's mirror, read by the supervisor."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._beat: Stamp | None = None
        self._since: float | None = None
        self._last = clock()

    def update(self, beat: Stamp | None, *, begun: bool) -> None:
        """Store the heartbeat that was just read. `begun`: the agent is up, so that a heartbeat is expected."""
        self._last = self._clock()
        if not begun or self._since is None or beat != self._beat:
            self._beat, self._since = beat, self._last

    def mark_unseen(self) -> None:
        """Note that the node was unreachable."""
        self._since = None

    def seconds(self) -> float:
        since = self._since
        return self._last - since if since is not None else 0.0
