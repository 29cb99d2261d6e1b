"""Which pairs to measure next, and what the measured ones show. Pure.

A round is a set of pairs that measure at the same time, each member in one of them. The members that are not slow with
each other form one group; who is in no group is slow itself, and a slow pair within a group is a slow link.

A slow member shows in its first round; a few partners confirm it. The first rounds are the links that
collectives use: those of a ring, and of halving (distances 1, 2, 4, 8, ...), O(log n) of them. A round sees n/2 of the
n(n-1)/2 links, so that no order of pairs finds any one link in fewer than n-1 rounds: the rest follows, if nothing
slow was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

from fsdpctl.contract.benchmarks import Fault, PairSpeed, Verdict

Pair = tuple[int, int]
Round = tuple[Pair, ...]

SLOW_BELOW = 0.6
"""Of the usual speed. A link that has fallen to half of its rate is slow."""
PARTNERS = 3
"""How many that are well a member must be slow with, if there are as many."""
TIMES = 2
"""How often slow pairs are measured. The best counts: nodes and networks are busy with other things at times."""


def next_round(size: int, speeds: Sequence[PairSpeed]) -> Round | Verdict:
    """Return the next pairs to measure, or the verdict. `speeds`: of all pairs so far."""
    measured = {speed.pair: speed for speed in speeds}
    slow = find_slow(speeds)
    first = [pair for pair in survey(size) if pair not in measured]
    to_confirm = list(_to_confirm(size, measured, slow))
    if first or to_confirm:
        return _disjoint([*to_confirm, *first, *(_unmeasured(size, measured) if first else ())])
    if not slow and (rest := list(_unmeasured(size, measured))):
        return _disjoint(rest)
    return judge(size, measured, slow)


def find_slow(speeds: Sequence[PairSpeed]) -> set[Pair]:
    """Return the pairs that are much slower than usual: than the upper quartile, as one slow member of three slows two
    of three pairs."""
    if len(speeds) < 2:
        return set()
    sorted_speeds = sorted(speed.bytes_per_s for speed in speeds)
    usual = sorted_speeds[math.ceil(0.75 * len(speeds)) - 1] if len(speeds) > 2 else sorted_speeds[-1]
    return {speed.pair for speed in speeds if speed.bytes_per_s < SLOW_BELOW * usual}


def survey(size: int) -> list[Pair]:
    """Return the links of a ring and of halving, by distance, each once."""
    found: dict[Pair, None] = {}
    for distance in (2**power for power in range(max(1, (size - 1).bit_length()))):
        for member in range(size):
            other = (member + distance) % size
            if other != member:
                found.setdefault(_pair(member, other))
    return list(found)


def judge(size: int, measured: Mapping[Pair, PairSpeed], slow: set[Pair]) -> Verdict:
    """Return what is slow, from the groups that the pairs that are not slow connect."""
    if not slow:
        return Verdict(Fault.NONE)
    groups = _groups(size, measured, slow)
    large = [group for group in groups if len(group) > 1]
    if not large:
        return Verdict(Fault.UNDECIDED, links=tuple(sorted(slow)))
    if len(large) > 1:
        return Verdict(Fault.GROUPS, groups=tuple(large), members=_alone(groups))
    if alone := _alone(groups):
        return Verdict(Fault.MEMBERS, members=alone, links=_within(large[0], slow))
    return Verdict(Fault.LINKS, links=_within(large[0], slow))


def _to_confirm(size: int, measured: Mapping[Pair, PairSpeed], slow: set[Pair]) -> Iterator[Pair]:
    """Yield what is still needed to know whether a slow pair is a slow member or a slow link."""
    if not slow:
        return
    largest = max(_groups(size, measured, slow), key=len)
    for member in sorted({member for pair in slow for member in pair}):
        if member not in largest:
            pairs = [_pair(member, other) for other in largest]
            pairs.sort(key=lambda pair: -_times(pair, measured))
            yield from (pair for pair in pairs[:PARTNERS] if _times(pair, measured) < TIMES)
    yield from (pair for pair in _within(largest, slow) if _times(pair, measured) < TIMES)


def _times(pair: Pair, measured: Mapping[Pair, PairSpeed]) -> int:
    return measured[pair].measured if pair in measured else 0


def _groups(size: int, measured: Mapping[Pair, PairSpeed], slow: set[Pair]) -> list[tuple[int, ...]]:
    """Return the groups of members that pairs of the usual speed connect, the largest first."""
    group = list(range(size))
    for a, b in measured:
        if (a, b) not in slow and group[a] != group[b]:
            old = group[b]
            group = [group[a] if of == old else of for of in group]
    found = [tuple(member for member in range(size) if group[member] == of) for of in dict.fromkeys(group)]
    return sorted(found, key=lambda members: -len(members))


def _alone(groups: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    return tuple(sorted(group[0] for group in groups if len(group) == 1))


def _within(group: Sequence[int], pairs: set[Pair]) -> tuple[Pair, ...]:
    return tuple(sorted(pair for pair in pairs if set(pair) <= set(group)))


def _unmeasured(size: int, measured: Mapping[Pair, PairSpeed]) -> Iterator[Pair]:
    """Yield all other pairs, by distance: neighbours in this order fill a round."""
    for distance in range(1, size // 2 + 1):
        for member in range(size):
            pair = _pair(member, (member + distance) % size)
            if pair not in measured:
                yield pair


def _disjoint(wanted: Sequence[Pair]) -> Round:
    """Return pairs in which each member is once, the most wanted first."""
    busy: set[int] = set()
    chosen = []
    for pair in wanted:
        if busy.isdisjoint(pair):
            busy.update(pair)
            chosen.append(pair)
    return tuple(chosen)


def _pair(a: int, b: int) -> Pair:
    return (a, b) if a < b else (b, a)
