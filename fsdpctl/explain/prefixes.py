"""What launchers and loggers write before a line: which rank wrote it, when, and at what level."""

from __future__ import annotations

import re
from typing import NamedTuple

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_WRITER = re.compile(
    r"""
    \[(?:rank|Rank\ )(?P<rank>\d+)\]:\s?          # torch
    | \[(?P<role>[A-Za-z_]+?)(?P<local>\d+)\]:\s?  # torchrun --tee
    | (?:node\d+\s+)?rank(?P<ours>\d+)\s+\|\s      # fsdpctl logs
    | \s{0,3}(?P<task>\d{1,6}):\ (?!\d\d:)         # srun --label
    | \[(?P<job>\d+),(?P<mpi>\d+)\]<std(?:err|out)>:\s?  # mpirun --tag-output
    | \((?P<ray>\w+)\ (?:rank=(?P<ray_rank>\d+),\ )?pid=\d+(?:,\ ip=(?P<host>[\w.:-]+))?\)\s?
    """,
    re.VERBOSE,
)
_LOG = re.compile(
    r"""
    \[?\d{4}[-/]\d\d[-/]\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?[\ \t]*
    | \[?[WIEFCD]\d{4}\ \d\d:\d\d:\d\d\.\d+\ +\d+\ [^\]]{1,160}?\]\ ?
    | \[[WIEFCD]\d{3,6}\ \d\d:\d\d:\d\d\.\d+\ [\w./-]+:\d+\]\ ?
    | \[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE)\]?(?:\ *[:|-]|(?<=\])|\ (?=\s*\S+Error))\ *
    | (?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\ (?=\d\d[-/]\d\d\ )
    | \[?\d\d[-/]\d\d(?:[-/]\d{2,4})?[T\ ]\d\d:\d\d:\d\d(?:[.,]\d+)?\]?[\ \t]*
    | \[[\w./-]+\.py:\d+\]\s+
    | -\ (?=\S)
    | [\w.]+(?:\.py)?:\d+\ *[-:|]\ +
    """,
    re.VERBOSE,
)
_LOGGER = re.compile(r"[A-Za-z_][\w.]*(?: - |:(?=[A-Z]\w*(?:Error|Exception)\b))")


class Prefixed(NamedTuple):
    """A line without its writer's prefix; the rank that the prefix names, if it has one, and its host."""

    rank: int | None
    host: str | None
    text: str


def read_prefix(line: str) -> Prefixed:
    """Split the prefix from a line; torchrun's is followed by torch's own, whose rank is the global one."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    rank = host = None
    while (found := _WRITER.match(line)) is not None:
        named = next(
            (found[name] for name in ("rank", "local", "ours", "task", "mpi", "ray_rank") if found[name]), None
        )
        rank = int(named) if named else rank
        host = found["host"] or host
        line = line[found.end() :]
    return Prefixed(rank, host, line)


def strip_log_prefix(text: str) -> str:
    """Return a line without time stamp, level and logger name."""
    for _ in range(6):
        found = _LOG.match(text) or (_LOGGER.match(text) if _ else None)
        if found is None or not found.end():
            break
        text = text[found.end() :]
    return text.rstrip()
