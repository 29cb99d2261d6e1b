"""The prefix `node0 rank3 | ` that names the writer of a line, in columns of fixed width."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fsdpctl.logs.line import Line, LogFile, Source
from fsdpctl.logs.ranges import fold

_CLOCK_WIDTH = len("2026-11-27 23:05:46.1 ")


@dataclass(frozen=True)
class Widths:
    """Widths of the columns for the node and the writer, in characters."""

    node: int
    writer: int


def widths(files: Sequence[LogFile]) -> Widths:
    """Return widths that fit each single file and all ranks together."""
    nodes = [frozenset([file.node_rank]) for file in files] + [frozenset(file.node_rank for file in files)]
    writers = [_writer(file.source, frozenset([file.rank])) for file in files]
    writers.append(_writer("rank", frozenset(file.rank for file in files if file.source == "rank")))
    return Widths(max(len(_label("node", each)) for each in nodes), max(map(len, writers)))


def clock(line: Line) -> str:
    """Return when a line was written, in local time, as a column."""
    if line.stamp is None:
        return " " * _CLOCK_WIDTH
    tenths = int(line.stamp * 10)
    return f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(tenths // 10))}.{tenths % 10} "


def prefixed(group: Sequence[Line], columns: Widths) -> str:
    """Return one printable line for lines of different writers, with the text of the first."""
    nodes = frozenset([line.node_rank for line in group])
    ranks = frozenset([line.rank for line in group])
    return _prefix(nodes, group[0].source, ranks, columns) + group[0].text


@lru_cache(maxsize=1024)
def _prefix(nodes: frozenset[int | None], source: Source, ranks: frozenset[int | None], columns: Widths) -> str:
    return f"{_label('node', nodes):<{columns.node}} {_writer(source, ranks):<{columns.writer}} | "


def _writer(source: Source, ranks: frozenset[int | None]) -> str:
    return _label("rank", ranks) if source == "rank" else source


def _label(kind: str, numbers: frozenset[int | None]) -> str:
    known = [number for number in numbers if number is not None]
    if len(known) < 2:
        return f"{kind}{known[0]}" if known else ""
    return f"{kind}[{fold(known)}]"
