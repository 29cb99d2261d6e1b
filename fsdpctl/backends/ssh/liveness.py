"""Watch which hosts answer on ssh: a pulled cable closes no connection and ends no process.

A host is lost only if it gives no answer while another one does, and the run makes no progress. If no host answers,
this machine is cut off; and a run that makes progress needs no help. Hosts without an answer are reported long before
that, and nothing is ended: a cable that is pulled for some seconds must cost nothing.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.supervise.hang import OUTAGE_FACTOR

EVERY_S = 2.0
AGAIN_S = 1.0
"""After a request without an answer: a host that is back should not be waited for."""
DOUBT_S = 4.5
"""Two requests without an answer: a host that dies just after it has answered is reported within 5 s."""
STALL_FACTOR = 4
"""A run makes no progress if nothing was written for this many times the limit for a host without an answer."""
USUAL_FACTOR = 2
"""Or, if that is less, for this many times its longest recent pause."""
RECENT = 10
"""How many pauses between two writes count as recent."""
LOOK_EVERY_S = 1.0
"""At the files of all ranks, which a file server may have."""


def find_lost(
    unanswered_s: Mapping[int, float],
    stalled_s: float,
    longest_s: float | None,
    timeout_s: float,
    has_ended: Callable[[int], bool],
) -> int | None:
    """Return the rank of a lost host, or None. All times in seconds; `longest_s`: of the recent pauses, if known.

    A node that has ended is not lost: its host may be switched off. Its answer still shows that this machine is not
    cut off.
    """
    lost = [rank for rank, seconds in unanswered_s.items() if seconds > timeout_s]
    if not lost or len(lost) == len(unanswered_s) or stalled_s <= stall_limit_s(longest_s, timeout_s):
        return None
    return next((rank for rank in lost if not has_ended(rank)), None)


def stall_limit_s(longest_s: float | None, timeout_s: float) -> float:
    """Return after how long without a write a run makes no progress: longer than the pause after an outage that is to
    cost nothing.
    """
    limit_s = STALL_FACTOR * timeout_s
    return limit_s if longest_s is None else min(limit_s, max(OUTAGE_FACTOR * timeout_s, USUAL_FACTOR * longest_s))


def describe_unanswered(unanswered_s: Mapping[int, float], names: Mapping[int, str]) -> str | None:
    """Return which hosts do not answer, as text; None if all do."""
    unanswered = [names[rank] for rank, seconds in unanswered_s.items() if seconds > DOUBT_S]
    if len(unanswered) == len(unanswered_s) > 1:
        return "no host answers"
    return f"no answer from {', '.join(unanswered)}" if unanswered else None


class LastSeen:
    """How long each host gives no answer. Time without an answer from any host does not count."""

    def __init__(
        self, ranks: Iterable[int], timeout_s: float, late_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._timeout_s, self._late_s, self._clock = timeout_s, late_s, clock
        self._connected_since = clock() + late_s
        self._answered = dict.fromkeys(ranks, clock())

    def expect(self, rank: int) -> None:
        """Start with another host of this rank, which may take `late_s` to answer for the first time."""
        self._answered[rank] = self._clock() + self._late_s

    def mark_alive(self, rank: int) -> None:
        now = self._clock()
        if now - max(self._answered.values()) > self._timeout_s:
            # The first host that answers again must not make the others look lost: they may be asked `late_s` later.
            self._connected_since = now + self._late_s
        self._answered[rank] = now

    def seconds(self) -> dict[int, float]:
        now = self._clock()
        return {rank: max(0.0, now - max(answered, self._connected_since)) for rank, answered in self._answered.items()}


class Liveness:
    """Asks each host in a thread of its own, so that one that hangs delays no other.

    `timeout_s`: after which a host without an answer counts as lost, and a command on it ends.
    """

    def __init__(self, links: Mapping[int, Link], timeout_s: float) -> None:
        self._links, self._timeout_s = dict(links), timeout_s
        # A first connection can time out, and is tried again after a pause.
        late_s = EVERY_S + max(link.target.connect_timeout_s for link in links.values())
        self._last_seen = LastSeen(links, DOUBT_S, late_s)
        for rank in links:
            self._begin(rank)

    def replace(self, rank: int, link: Link) -> None:
        """Watch another host for this rank."""
        self._links[rank] = link
        self._last_seen.expect(rank)
        self._begin(rank)

    def _begin(self, rank: int) -> None:
        link = self._links[rank]
        threading.Thread(target=self._watch, args=(rank, link), name=f"liveness-{rank}", daemon=True).start()

    def unanswered_s(self) -> dict[int, float]:
        return self._last_seen.seconds()

    def _watch(self, rank: int, link: Link) -> None:
        while self._links[rank] is link:
            is_answering = link.is_answering(EVERY_S, self._timeout_s)
            if is_answering and self._links[rank] is link:
                self._last_seen.mark_alive(rank)
            time.sleep(EVERY_S if is_answering else AGAIN_S)


class StallTimer:
    """How long nothing was written to metrics, rank logs and rank progress files, by this machine's clock."""

    def __init__(self, run: RunPaths, attempt: AttemptPaths, clock: Callable[[], float] = time.monotonic) -> None:
        self._run, self._attempt, self._clock = run, attempt, clock
        self._newest, self._since, self._next = 0, clock(), 0.0
        self._pauses: deque[float] = deque(maxlen=RECENT)

    def seconds(self) -> float:
        now = self._clock()
        if now >= self._next:
            self._next = now + LOOK_EVERY_S
            self._look(now)
        return now - self._since

    def _look(self, now: float) -> None:
        newest = max((_mtime_ns(path) for path in self._files()), default=0)
        if newest != self._newest:
            self._pauses.append(now - self._since)
            self._newest, self._since = newest, now

    @property
    def longest_s(self) -> float | None:
        """The longest of the recent pauses between two writes; None before there were so many."""
        return max(self._pauses) if len(self._pauses) == RECENT else None

    def _files(self) -> Iterable[Path]:
        yield self._run.metrics
        for node in self._attempt.nodes():
            yield from node.rank_logs().values()
            yield from node.rank_progress_files()


def _mtime_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
