"""The same text from many ranks, once."""

from __future__ import annotations

from collections.abc import Iterable

from fsdpctl.logs.line import Line, Source
from fsdpctl.logs.stamp import body


def collapse(lines: Iterable[Line]) -> list[list[Line]]:
    """Group lines of different writers that differ at most in stamp and rank mark, by first appearance.

    What one rank says twice stays two lines: its second meets the second of the others.
    """
    times_said: dict[tuple[int | None, Source, int | None, str], int] = {}
    groups: dict[tuple[Source, str, int], list[Line]] = {}
    for line in lines:
        text = body(line.text)
        utterance = (line.node_rank, line.source, line.rank, text)
        nth = times_said.get(utterance, 0)
        times_said[utterance] = nth + 1
        groups.setdefault((line.source, text, nth), []).append(line)
    return list(groups.values())
