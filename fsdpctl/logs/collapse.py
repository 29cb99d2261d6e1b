"""Show the same text from many ranks once."""

from __future__ import annotations

from collections.abc import Iterable

from fsdpctl.logs.line import Line, Source
from fsdpctl.logs.stamp import body


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
