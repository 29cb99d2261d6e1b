"""Many streams of lines in one order of time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from math import inf

from fsdpctl.logs.line import Line


def merge(streams: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """Yield all lines by stamp; the order within a stream never changes, a tie goes to the stream named first.

    One line of each stream is held at a time. Lines before the first stamp of their stream come first.
    """
    return heapq.merge(*streams, key=lambda line: -inf if line.stamp is None else line.stamp)
