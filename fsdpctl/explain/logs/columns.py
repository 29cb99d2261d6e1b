"""Ranks in a column of a logger's format, behind the time and the level, and tracebacks below such a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

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
_BETWEEN = ("The above exception was", "During handling of", "Traceback", 'File "', " ", "\t")


def read_columns(lines: Sequence[Prefixed]) -> list[Prefixed]:
    """Return the lines, with the rank of their column where they have no other; a number alone is a rank where all such
    numbers are those of a group of ranks."""
    found = [_COLUMN.match(line.text) if line.rank is None and line.task is None else None for line in lines]
    bare = {int(one["bare"]) for one in found if one and one["bare"]}
    has_bare = len(bare) > 1 and bare == set(range(len(bare)))
    return list(_with_tracebacks([_read(*pair, has_bare=has_bare) for pair in zip(lines, found, strict=True)], lines))


def _read(line: Prefixed, found: re.Match[str] | None, *, has_bare: bool) -> Prefixed:
    if found is None or not (found["rank"] or has_bare):
        return line
    return line._replace(rank=int(found["rank"] or found["bare"]), text=found["before"] + line.text[found.end() :])


def _with_tracebacks(lines: Sequence[Prefixed], before: Sequence[Prefixed]) -> Iterator[Prefixed]:
    """Yield the lines; a traceback directly below a line whose rank is that of a column is of this rank."""
    rank: int | None = None
    in_traceback = False
    for line, old in zip(lines, before, strict=True):
        if line.rank is not None:
            rank, in_traceback = (line.rank if old.rank is None else None), False
        elif rank is not None and (in_traceback or line.text.startswith(TRACEBACK)):
            in_traceback = True
            is_last = line.text.strip() and not line.text.startswith(_BETWEEN)
            yield line._replace(rank=rank)
            rank = None if is_last else rank
            continue
        else:
            rank = None
        yield line
