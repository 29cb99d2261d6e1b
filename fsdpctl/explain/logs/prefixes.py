"""What launchers and loggers write before a line: which rank wrote it, when, and at what level."""

from __future__ import annotations

import re
from typing import NamedTuple

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_WRITER = re.compile(
    r"""
    [>#]\s                                        # quoted in a mail, a report or a script
    | \d+\.\d+s\t\d+\t                             # a log of Kaggle
    | \s*\[[Rr]ank[\ =]?(?P<rank>\d+)\](?::\s?|\ )    # torch
    | \[[A-Za-z_]+?(?P<local>\d+)\]:\s?  # torchrun --tee
    | (?:node\d+\s+)?[Rr]ank\ ?(?P<ours>\d+)\s*[|>]\s  # fsdpctl logs
    | rank=(?P<field>\d+)\s                       # logfmt
    | \s{0,3}(?P<task>\d{1,6}):\ (?!\d\d:)         # srun --label
    | \[(?:\d+,)?(?:mpirank:)?(?P<mpi>\d+)(?:,[\w.-]+)?\]<std(?:err|out)>:\s?  # mpirun --tag-output, SageMaker, Horovod
    | \[pod/(?P<pod>[\w.-]+)/[\w.-]+\]\s          # kubectl logs --prefix
    | \(\w+\ (?:rank=(?P<ray_rank>\d+),?\ )?pid=\d+(?:,\ ip=(?P<host>[\w.:-]+))?\)\s?
    """,
    re.VERBOSE,
)
_INNER = re.compile(r"\[(?:rank(?P<rank>\d+)|default(?P<local>\d+))\]: ?|\brank=(?P<field>\d+)\s")
_HOST = re.compile(r"([\w.-]+): ")  # of pdsh
_GLOBAL = ("rank", "ours", "field", "mpi")
_FIRST = frozenset("[(># rRn0123456789")
_LOG = re.compile(
    r"""
    \[?\d{4}[-/]\d\d[-/]\d\d[T\ ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?\]?:?[\ \t]*
    | \[?[WIEFCD]\d{4}\ \d\d:\d\d:\d\d\.\d+\ +\d+\ [^\]]{1,160}?\]\ ?
    | \[[WIEFCD]\d{3,6}\ \d\d:\d\d:\d\d\.\d+\ [\w./-]+:\d+\]\ ?
    | \[?(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL|SEVERE)\]?(?:\ *[:|-]|(?<=\])|\ (?=\s*\S+Error))\ *
    | (?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|CRITICAL|FATAL)\ (?=\d\d[-/]\d\d\ )
    | \[?\d\d[-/]\d\d(?:[-/]\d{2,4})?[T\ ]\d\d:\d\d:\d\d(?:[.,]\d+)?\]?[\ \t]*
    | \[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?[\ \t]+
    | [A-Z][a-z]{2}\ [\ \d]\d\ \d\d:\d\d:\d\d\ \S+\ [\w./-]+(?:\[\d+\])?:\   # syslog
    | (?:stdout|stderr)\ [FP]\   # containerd
    | \[[\w./-]+\.py:\d+\]\s+
    | .{0,120}?\d+%\|.*?\|\ \d+/\d+\ \[[^\]]*\]\s*(?=[A-Z])  # a progress bar
    | -\ (?=\S)
    | _?\*{1,2}(?=\w) | `{1,3}(?=\w)  # Markdown
    | ErrorMessage\ "(?=[\w.]+(?:Error|Exception)\b)  # SageMaker
    | (?:level|lvl|severity)="?(?:error|fatal|critical|panic)"?\ (?:\w+=\S+\ )*?msg="   # logfmt
    | (?i:(?:uncaught|unhandled)\ exception):?\ +(?=\S+(?:Error|Exception)\b)
    | [\w.]+(?:\.py)?:\d+\ *[-:|]\ +
    """,
    re.VERBOSE,
)
_LOGGER = re.compile(r"[A-Za-z_][\w.]*(?: - |:(?=[A-Z]\w*(?:Error|Exception)\b))")


class Prefixed(NamedTuple):
    """A line without its writer's prefix, and what the prefix names: a task of srun is a rank, or a node's launcher."""

    rank: int | None
    local_rank: int | None
    host: str | None
    text: str
    pod: str | None = None
    task: int | None = None


def read_prefix(line: str) -> Prefixed:
    """Split the prefix from a line; torchrun's is followed by torch's own, whose rank is the global one."""
    if "\x1b" in line:
        line = _ANSI.sub("", line)
    if line[:1] not in _FIRST:
        return Prefixed(None, None, None, line)
    rank = local_rank = host = pod = task = None
    while (found := _WRITER.match(line)) is not None:
        kind = found.lastgroup
        if kind == "local":
            local_rank = int(found[kind])
        elif kind in _GLOBAL:
            rank = int(found[kind])
        elif kind == "task":
            task = int(found[kind])
        elif kind == "pod":
            host = pod = found[kind]
        elif kind is not None:
            rank = int(found["ray_rank"]) if found["ray_rank"] else rank
            host = found["host"] or host
        line = line[found.end() :]
    return Prefixed(rank, local_rank, host, line, pod, task)


def read_prefixes(line: str) -> list[Prefixed]:
    """Split a line in which the prefix of a rank is not at the begin: after a time or a host that prefix counts for the
    whole line, and after a progress bar, which ends without a newline, the rank's own line begins there."""
    whole = read_prefix(line)
    may_have = whole.rank is None and ("]:" in whole.text or "rank=" in whole.text)
    inner = _INNER.search(whole.text) if may_have else None
    if inner is None:
        return [whole]
    before, after = whole.text[: inner.start()], whole.text[inner.end() :]
    rank = int(number) if (number := inner["rank"] or inner["field"]) else None
    local_rank = int(inner["local"]) if inner["local"] else whole.local_rank
    own = whole._replace(rank=rank, local_rank=local_rank, text=after)
    if not strip_log_prefix(before):
        return [own._replace(text=before + after)]
    if inner["field"]:
        return [whole]
    if host := _HOST.fullmatch(before):
        return [own._replace(host=whole.host or host[1])]
    return [whole._replace(text=before), own]


def strip_log_prefix(text: str) -> str:
    """Return a line without time stamp, level and logger name."""
    for _ in range(6):
        found = _LOG.match(text) or (_LOGGER.match(text) if _ else None)
        if found is None or not found.end():
            break
        text = text[found.end() :]
    return text.rstrip()
