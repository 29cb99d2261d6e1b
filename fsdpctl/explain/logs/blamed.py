"""The rank that a failure names as its cause: another one than the rank that reports it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

from fsdpctl.explain.logs.match import Match

_REPORTER = re.compile(r"(?:[\w.]+: )?\[?[Rr]ank (\d+)\]?[:,] (?!Rank)")
"""How Megatron and scripts begin a message: its rank is the global one."""
_NAMED = re.compile(
    r"""
    \bRank\ (\d+)\ failed\ to\ pass\ monitoredBarrier
    | ranks:dict_keys\(\[([\d,\ ]+)\]\)                                     # a distributed checkpoint
    | ^\s*(?:-\ )?\[([\d,\ ]+)\]\ (?:joined\ but\ didn't\ finish|finished)\ collective  # torch's report of a desync
    | ^\s*(\d+)!:\ \[                                                        # Horovod's of a stall
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"\d+")
_ALL_STATES = "Snapshot of ranks"
"""Where torch's report of a desync goes over to the ranks that only wait."""
_NEAR = 30
"""Lines after the begin of a failure that belong to its report."""


def blamed_rank(match: Match, lines: Sequence[str]) -> int | None:
    """Return the rank that the report of a failure names, if it names a single one."""
    if (reporter := _REPORTER.match(match.line)) is not None:
        return int(reporter[1])
    report = takewhile(lambda line: _ALL_STATES not in line, lines[match.number - 1 : match.number + _NEAR])
    named = {int(rank) for line in report if (found := _NAMED.search(line)) for rank in _NUMBER.findall(found[0])}
    return named.pop() if len(named) == 1 else None
