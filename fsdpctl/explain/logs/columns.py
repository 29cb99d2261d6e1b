"""Ranks in a column of a logger's format, behind the time and the level, and tracebacks below a line with a rank."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from fsdpctl.explain.logs.prefixes import Prefixed
from fsdpctl.explain.logs.tracebacks import TRACEBACK

_COLUMN = re.compile(
    r"""
    (?P<before>
      \[?\d{4}[-/]\d\d[-/]\d\d[T\ ]\d\d:\d\d:\d\d[^\s|]*[\s|]+
      (?:\[?(?P<level>TRACE|DEBUG|INFO|SUCCESS|WARN|WARNING|ERROR|CRITICAL|FATAL)\]?\b[\s|:]+)?
      (?:[\w.<>]+(?::[\w.<>]+)?:\d+\ -\ )?  # loguru
    )
    (?: \[?(?:[\w.-]+\ )?r(?:ank)?[\ _:=-]?(?P<rank>\d{1,5})(?:/\d+)?(?:\]:?|\ *[|>:])\s
      | (?(level)\[(?P<bare>\d{1,4})\]\s|(?!)) )
    """,
    re.VERBOSE,
)
_ANNOUNCED = re.compile(r"(?:^|[\s|\]])\[?(?:ERROR|CRITICAL|FATAL)\b.{0,40}?\brank[ =:_]{1,2}(\d{1,5})\b")
_FAILS = re.compile(r"(?i)\b(?:unhandled|uncaught|exception|crash(?:ed)?|failed)\b")
_BETWEEN = ("The above exception was", "During handling of", "Traceback", 'File "', " ", "\t")


def read_columns(lines: Sequence[Prefixed]) -> list[Prefixed]:
    """Return the lines, with the rank of their column where they have no other; a number alone is a rank where all such
    numbers are those of a group of ranks."""
    found = [_COLUMN.match(line.text) if line.rank is None and line.task is None else None for line in lines]
    bare = {int(one["bare"]) for one in found if one and one["bare"]}
    has_bare = len(bare) > 1 and bare == set(range(len(bare)))
    read = [_read(*pair, has_bare=has_bare) for pair in zip(lines, found, strict=True)]
    for at, (line, below) in enumerate(pairwise(read)):
        if line.rank is None and line.task is None and below.text.startswith(TRACEBACK):
            read[at] = _with_announced(line)
    return list(_with_tracebacks(read, lines))


def _with_announced(line: Prefixed) -> Prefixed:
    """Return an error directly above a traceback with the rank that it names."""
    return line._replace(rank=int(named[1])) if (named := _ANNOUNCED.search(line.text)) else line


def _read(line: Prefixed, found: re.Match[str] | None, *, has_bare: bool) -> Prefixed:
    if found is None or not (found["rank"] or has_bare):
        return line
    return line._replace(rank=int(found["rank"] or found["bare"]), text=found["before"] + line.text[found.end() :])


def _with_tracebacks(lines: Sequence[Prefixed], before: Sequence[Prefixed]) -> Iterator[Prefixed]:
    """Yield the lines; a traceback directly below a line whose rank is that of a column, or that reports a
    failure of its rank, is of this rank."""
    rank: int | None = None
    in_traceback = False
    for line, old in zip(lines, before, strict=True):
        if line.rank is not None:
            is_of_traceback = old.rank is None or _FAILS.search(line.text)
            rank, in_traceback = (line.rank if is_of_traceback else None), False
        elif rank is not None and (in_traceback or line.text.startswith(TRACEBACK)):
            in_traceback = True
            is_last = line.text.strip() and not line.text.startswith(_BETWEEN)
            yield line._replace(rank=rank)
            rank = None if is_last else rank
            continue
        else:
            rank = None
        yield line
