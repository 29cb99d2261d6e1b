"""The rank that a failure names as its cause: another one than the rank that reports it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from fsdpctl.explain.logs.match import Match

_REPORTER = re.compile(r"(?:[\w.]+: )?\[?[Rr]ank (\d+)\]?[:,] (?!Rank)|.{0,60}\[RankMonitorServer:(\d+)\]")
"""How Megatron and scripts begin a message, and NVIDIA's monitor of each rank: its rank is the global one."""
_NAMED = re.compile(
    r"""
    \bRanks?\ ([\d,\ ]+)\ failed\ to\ pass\ monitoredBarrier
    | ranks:dict_keys\(\[([\d,\ ]+)\]\)                                     # a distributed checkpoint
    | ^\s*(?:-\ )?\[([\d,\ ]+)\]\ (?:joined\ but\ didn't\ finish|finished)\ collective  # torch's report of a desync
    | ^\s*(\d+)!:\ \[                                                        # Horovod's of a stall
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"\d+")
_ALL_STATES = "Snapshot of ranks"
"""Where torch's report of a desync goes over to the ranks that only wait."""
_BEFORE, _NEAR = 5, 30
"""Lines before and after the begin of a failure that belong to its report."""


def blamed_rank(match: Match, lines: Sequence[str]) -> int | None:
    """Return the rank that the report of a failure names, if it names a single one."""
    if (reporter := _REPORTER.match(match.line)) is not None:
        return int(reporter[1] or reporter[2])
    near = lines[max(0, match.number - 1 - _BEFORE) : match.number + _NEAR]
    report = takewhile(lambda line: _ALL_STATES not in line, near)
    named = {int(rank) for line in report if (found := _NAMED.search(line)) for rank in _NUMBER.findall(found[0])}
    return named.pop() if len(named) == 1 else None
