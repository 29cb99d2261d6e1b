"""Show the same text from many ranks once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice

from fsdpctl.logs.line import Line, Source
from fsdpctl.logs.stamp import body

SLOT_S = 0.5
"""Lines are folded within such a slot of time, whose limits are the same for each reader."""
_BATCH = 4096
"""Maximum number of lines that are folded together."""


def begin_of_slot(seconds: float) -> float:
    """Return the begin of the slot of a time."""
    return seconds // SLOT_S * SLOT_S


def collapse_slots(lines: Iterable[Line]) -> Iterator[list[list[Line]]]:
    """Yield the groups of `collapse` for one slot of time after the other; lines without a time are one slot."""
    for _, slot in groupby(lines, key=lambda line: None if line.stamp is None else begin_of_slot(line.stamp)):
        while batch := list(islice(slot, _BATCH)):
            yield collapse(batch)


def collapse(lines: Iterable[Line]) -> list[list[Line]]:
    """Group lines of different writers that differ at most in stamp and rank mark, by first appearance.

    A line that one rank writes twice stays two lines: its second is grouped with the second of the others.
    """
    times_written: dict[tuple[int | None, Source, int | None, str], int] = {}
    groups: dict[tuple[Source, str, int], list[Line]] = {}
    for line in lines:
        text = body(line.text)
        key = (line.node_rank, line.source, line.rank, text)
        nth = times_written.get(key, 0)
        times_written[key] = nth + 1
        groups.setdefault((line.source, text, nth), []).append(line)
    return list(groups.values())
