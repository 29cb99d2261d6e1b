"""Merge many streams of lines in the order of their stamps."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from math import inf

from fsdpctl.logs.line import Line


def merge(streams: Iterable[Iterable[Line]]) -> Iterator[Line]:
    """Yield all lines by stamp; the order within a stream never changes, the first stream wins a tie.

    Only one line of each stream is in memory. Lines before the first stamp of their stream come first.
    """
    return heapq.merge(*streams, key=lambda line: -inf if line.stamp is None else line.stamp)
