"""Which hosts answer, watched beside the run: a pulled cable closes no connection and ends no process.

A host is lost only when it is silent while another one answers, and the run stands still. When nobody answers it is
this machine that is cut off, and a run that goes on needs no help, however its host looks from here. Long before
that, doubts are told, and end nothing: a cable that is pulled for some seconds must cost nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.contract.paths import AttemptPaths, RunPaths

EVERY_S = 2.0
DOUBT_S = 4.5
"""Two questions without an answer: a host that dies just after it has answered is told of within 5 s."""
STALL_FACTOR = 4
"""A run stands still when nothing was written for this many times the limit for a host's silence."""


def find_lost(silent_s: Mapping[int, float], stalled_s: float, timeout_s: float) -> int | None:
    """The rank of a host that the run has lost, if it has."""
    lost = [rank for rank, seconds in silent_s.items() if seconds > timeout_s]
    if not lost or len(lost) == len(silent_s) or stalled_s <= STALL_FACTOR * timeout_s:
        return None
    return lost[0]


def describe_silent(silent_s: Mapping[int, float], names: Mapping[int, str]) -> str | None:
    """Which hosts do not answer, in words; None when all do."""
    silent = [names[rank] for rank, seconds in silent_s.items() if seconds > DOUBT_S]
    if len(silent) == len(silent_s) > 1:
        return "no host answers"
    return f"no answer from {', '.join(silent)}" if silent else None


class LastSeen:
    """How long each host is silent to somebody who can hear. What he missed while he heard nobody does not count."""

    def __init__(
        self, ranks: Iterable[int], timeout_s: float, late_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._timeout_s, self._late_s, self._clock = timeout_s, late_s, clock
        self._hears_since = clock() + late_s
        self._answered = dict.fromkeys(ranks, clock())

    def expect(self, rank: int) -> None:
        """Another host is asked from now on, which may take `late_s` to answer for the first time."""
        self._answered[rank] = self._clock() + self._late_s

    def mark_alive(self, rank: int) -> None:
        now = self._clock()
        if now - max(self._answered.values()) > self._timeout_s:
            # The first to be heard again must not make the others look lost: they may be asked `late_s` later.
            self._hears_since = now + self._late_s
        self._answered[rank] = now

    def seconds(self) -> dict[int, float]:
        now = self._clock()
        return {rank: max(0.0, now - max(answered, self._hears_since)) for rank, answered in self._answered.items()}


class Liveness:
    """Asks each host in a thread of its own, so that one that hangs delays no other."""

    def __init__(self, links: Mapping[int, Link]) -> None:
        self._links = dict(links)
        # A connection that could not be opened yet is given up, and then there is a pause.
        late_s = EVERY_S + max(link.target.connect_timeout_s for link in links.values())
        self._last_seen = LastSeen(links, DOUBT_S, late_s)
        for rank in links:
            self._begin(rank)

    def replace(self, rank: int, link: Link) -> None:
        """Ask another host in the place of one."""
        self._links[rank] = link
        self._last_seen.expect(rank)
        self._begin(rank)

    def _begin(self, rank: int) -> None:
        link = self._links[rank]
        threading.Thread(target=self._watch, args=(rank, link), name=f"liveness-{rank}", daemon=True).start()

    def silent_s(self) -> dict[int, float]:
        return self._last_seen.seconds()

    def _watch(self, rank: int, link: Link) -> None:
        while self._links[rank] is link:
            if link.is_answering(EVERY_S) and self._links[rank] is link:
                self._last_seen.mark_alive(rank)
            time.sleep(EVERY_S)


class StallTimer:
    """How long nothing was written: metrics, logs and pulses of ranks, by the watcher's own clock."""

    def __init__(self, run: RunPaths, attempt: AttemptPaths, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._attempt, self._clock = run, attempt, clock
        self._newest, self._since = 0, clock()

    def seconds(self) -> float:
        newest = max((_stamp(path) for path in self._files()), default=0)
        if newest != self._newest:
            self._newest, self._since = newest, self._clock()
        return self._clock() - self._since

    def _files(self) -> Iterable[Path]:
        yield self._run.metrics
        for node in self._attempt.nodes():
            yield from node.rank_logs().values()
            yield from node.rank_progress_files()


def _stamp(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
