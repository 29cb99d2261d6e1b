"""Agents watch each other through the run directory: the head watches all, the others watch the head.

A heartbeat is a file whose time stamp changes. Only the change counts, timed with the watcher's own clock, so that
neither clock skew between nodes nor file-system caches make a living node look dead.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from fsdpctl.contract import GOOD_ENDS, AbortReason
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.node_report import REPORT_EVERY_S, NodeReport, write_report
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.records import NodeEnd


class Heartbeat:
    """This node's heartbeat file, which holds the report on its ranks; `beat` may be called as often as convenient."""

    def __init__(self, path: Path, every_s: float = REPORT_EVERY_S) -> None:
        self._path, self._every_s, self._next = path, every_s, 0.0
        self._number = 0

    def beat(self, look: Callable[[], NodeReport] | None = None) -> None:
        """Beat if it is time. `look` returns what to report; without it, the last report is kept."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + self._every_s
        if look is not None:
            self._number += 1
            with suppress(OSError):  # on a full disk the time alone is changed
                write_report(self._path, replace(look(), number=self._number))
        with suppress(OSError):  # a file server that fails for a moment must not end the ranks
            self._path.touch(mode=0o600)


class PeerWatch:
    """Finds lost peers: those that failed, or whose heartbeat has stopped."""

    def __init__(
        self,
        attempt: AttemptPaths,
        node_ranks: list[int],
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.attempt = attempt
        self._nodes = {rank: attempt.node(rank) for rank in node_ranks}
        self._timeout_s, self._clock = timeout_s, clock
        self._seen: dict[int, tuple[int, float]] = {}
        self._last_look = clock()

    def find_lost(self) -> ControlFile | None:
        """Return why the attempt must end: the first peer that cannot continue; None while all is well. Call often."""
        now = self._clock()
        if now - self._last_look > self._timeout_s / 2:
            self._seen.clear()  # this process was suspended (sleep, SIGSTOP), and the peers may have been, too
        self._last_look = now
        for rank, paths in list(self._nodes.items()):
            end = find_json(NodeEnd, paths.end)
            if end is not None:
                if end.code not in GOOD_ENDS:
                    return ControlFile(AbortReason.FAULT, f"node {rank}: {end.reason}")
                del self._nodes[rank]
            elif self._is_unreachable(rank, paths):
                return ControlFile(AbortReason.LOST, f"node {rank}: lost, no heartbeat for {self._timeout_s:.0f} s")
        return None

    def find_living(self) -> list[int]:
        """Return the peers that have not ended and still have a heartbeat."""
        running = {rank: paths for rank, paths in self._nodes.items() if find_json(NodeEnd, paths.end) is None}
        return [rank for rank, paths in running.items() if not self._is_unreachable(rank, paths)]

    def _is_unreachable(self, rank: int, paths: NodePaths) -> bool:
        try:
            stamp = paths.heartbeat.stat().st_mtime_ns
        except OSError:
            stamp = 0
        now = self._clock()
        last_stamp, since = self._seen.get(rank, (None, now))
        if stamp != last_stamp:
            since = now
        self._seen[rank] = (stamp, since)
        return now - since > self._timeout_s
