"""The rank that a failure names as its cause: another one than the rank that reports it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from fsdpctl.explain.logs.match import Match

_REPORTER = re.compile(r"(?:[\w.]+: )?\[?[Rr]ank (\d+)\]?[:,] (?!Rank)")
"""How Megatron and scripts begin a message: its rank is the global one."""
_NAMED = re.compile(
    r"""
    \bRank\ (\d+)\ failed\ to\ pass\ monitoredBarrier
    | ranks:dict_keys\(\[(\d+)\]\)                                     # a distributed checkpoint
    | ^\s*(?:-\ )?\[(\d+)\]\ (?:joined\ but\ didn't\ finish|finished)\ collective  # torch's report of a desync
    | ^\s*(\d+)!:\ \[                                                  # Horovod's of a stall
    """,
    re.VERBOSE,
)
_NEAR = 30
"""Lines after the begin of a failure that belong to its report."""


def blamed_rank(match: Match, lines: Sequence[str]) -> int | None:
    """Return the rank that the report of a failure names, if it names a single one."""
    report = lines[match.number - 1 : match.number + _NEAR]
    found = _REPORTER.match(match.line) or next(filter(None, map(_NAMED.search, report)), None)
    return None if found is None else next(int(number) for number in found.groups() if number is not None)
