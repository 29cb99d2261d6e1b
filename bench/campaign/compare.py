"""What the observer has seen, as the numbers that the ledger has, too. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import pairwise

from bench.campaign.observer import Seen
from fsdpctl.ledger.account import EFFECTIVE, Ledger


@dataclass(frozen=True)
class Struck:
    """A fault and what followed, as the observer has it, and the same time in the ledger."""

    kind: str
    where: str
    time: float  # since the epoch
    back_s: float | None  # to the first new step; None: not in time
    attempt: int  # that made it; that of the fault, if the fault did not end it
    ledger_s: float | None = None  # of these seconds: those that the ledger has not as steps


def effective_time(seen: Sequence[Seen], kept: Collection[tuple[int, int]], total_s: float) -> float:
    """Return the share of a run's time in steps that were not done again.

    A step took from the line before to its own. Of an attempt's first one only its end is seen: it counts as a usual
    one.
    """
    durations: dict[tuple[int, int], float] = {}
    for before, after in pairwise(seen):
        if before.attempt == after.attempt:
            durations[after.attempt, after.step] = after.time - before.time
    usual_s = statistics.median(durations.values())
    return sum(durations.get(key, usual_s) for key in kept) / total_s


def longest_pause(seen: Sequence[Seen], since: float, until: float) -> float:
    """Return the longest time without a step, of those that end within a time: for faults that end no attempt."""
    return max(after.time - before.time for before, after in pairwise(seen) if since < after.time <= until)


def outage_in(ledger: Ledger, since: float, until: float) -> float:
    """Return how much of this time the ledger has as lost."""
    return sum(
        max(0.0, min(until, one.end) - max(since, one.begin)) for one in ledger.intervals if one.use not in EFFECTIVE
    )
