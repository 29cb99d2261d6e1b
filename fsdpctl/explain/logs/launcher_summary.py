"""What a launcher reports of its ranks at the end: which one it saw fail first, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_ROOT = "Root Cause (first observed failure):"
_KEY = re.compile(r"(?:^|\s)(host|rank|exitcode)\s+:\s*(\S+)")
_NAMED = re.compile(
    r"""
    srun:\ error:\ (?P<host>[\w.-]+):\ task\ (?P<rank>\d+):\ (?!Terminated)
    | (?:mpi|prte)\w+\ noticed\ that\ process\ rank\ (?P<mpi>\d+)\ with\ PID\ \d+\ on\ node\ (?P<node>\S+)
    | (?i:\brank[\ =](?P<ended>\d+)(?:\ \(PID\ \d+\)|\ pid=\d+)?\ (?:exited|crashed|died|failed)\b.{0,16}\b
      (?:code|status|signal)\ (?!-?(?:0|15|143)\b))-?\d+  # Composer, PALS
    | \[rank:\ (?P<child>\d+)\]\ Child\ process\ with\ PID\ \d+\ terminated\ with\ code  # Lightning
    """,
    re.VERBOSE,
)
_RANKS = ("rank", "mpi", "ended", "child")
_LOCAL = re.compile(
    r"(?:-- P|: p)rocess (\d+) terminated with (?:the following error|signal)"  # multiprocessing
    r"|failed \(exitcode: -?\d+\) local_rank: (\d+) \(pid:"  # torchrun
)
"""Not of DeepSpeed, whose launcher reports the command of the last process that it has started, whichever failed."""
_SEVERAL_NODES = re.compile(r"(?i)(?:nnodes|num[_-]nodes|num[_-]machines)\W{1,3}(?!1\b)\d")


@dataclass(frozen=True)
class LauncherSummary:
    """The first failure that a launcher observed."""

    rank: int
    host: str | None


def find_summary(lines: Sequence[str]) -> LauncherSummary | None:
    """Return the last summary of torchrun in these lines; without one, the first rank that a launcher names.

    A local rank is the rank only where the log shows no second node.
    """
    found = named = local = None
    values: dict[str, str] | None = None
    for line in lines:
        if _ROOT in line:
            values = {}
        elif values is not None and (key := _KEY.search(line)):
            values.setdefault(key[1], key[2])
            if len(values) == 3:
                found, values = _summary(values) or found, None
        elif named is None:
            named = _named(line)
            local = local or _LOCAL.search(line)
    if found or named or local is None or any(map(_SEVERAL_NODES.search, lines)):
        return found or named
    return LauncherSummary(int(next(filter(None, local.groups()))), None)


def later_failures(lines: Iterable[str]) -> set[int]:
    """Return the numbers of the lines, from 1, in which torchrun lists the ranks that failed after the first one."""
    found: set[int] = set()
    listed: set[int] | None = None
    for number, line in enumerate(lines, 1):
        if line.startswith("Failures:"):
            listed = set()
        elif listed is not None and _ROOT in line:
            found |= listed
            listed = None
        elif listed is not None:
            listed.add(number)
    return found


def _summary(values: dict[str, str]) -> LauncherSummary | None:
    return LauncherSummary(int(values["rank"]), values["host"]) if values["rank"].isdecimal() else None


def _named(line: str) -> LauncherSummary | None:
    if (named := _NAMED.search(line)) is None:
        return None
    rank = next(named[kind] for kind in _RANKS if named[kind])
    return LauncherSummary(int(rank), named["host"] or named["node"])
