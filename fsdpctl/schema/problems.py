"""The problems of a file, one line each: `FILE:LINE: key.path: what is wrong; what is allowed`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from fsdpctl.errors import UsageError

MAX_SHOWN = 50

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Location:
    """A line of a file, or a source without lines, like a `--set` option."""

    source: str
    line: int | None = None

    def at(self, line: int) -> Location:
        """Return another line of the same file; a source without lines has only one location."""
        return self if self.line is None else Location(self.source, line)

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class LocatedProblem:
    """What is wrong with a key, and where it was written."""

    location: Location
    path: KeyPath
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.location), key_path(self.path), self.text) if part)


class SpecError(UsageError):
    """All problems of one profile or job."""

    def __init__(self, what: str, problems: Sequence[LocatedProblem], num_more: int = 0) -> None:
        by_line = sorted(problems, key=lambda problem: problem.location.line or 0)
        lines = [str(problem) for problem in by_line[:MAX_SHOWN]]
        count = len(problems) + num_more
        if count > len(lines):
            lines.append(f"... and {count - len(lines)} more")
        self.problems = tuple(problems)
        super().__init__("\n".join([f"{what} has {count} {'problem' if count == 1 else 'problems'}", *lines]))


def fail(what: str, location: Location, text: str, path: KeyPath = ()) -> NoReturn:
    """Raise a SpecError for a problem that ends the validation."""
    raise SpecError(what, [LocatedProblem(location, path, text)])


def key_path(path: KeyPath) -> str:
    """Return a path as a user writes it, like `nodes[0].address`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" if text else shorten(part)
    return shorten(text, 100)


def show(value: object) -> str:
    """Return a short printable description of a value."""
    match value:
        case None:
            return "nothing"
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case str():
            return f'"{shorten(value)}"'
        case _:
            return shorten(json.dumps(value))


def shorten(text: str, limit: int = 40) -> str:
    """Return text cut to `limit` characters and on one line, so that one value cannot fill the screen."""
    return one_line(text if len(text) <= limit else f"{text[:limit]}...")


def one_line(text: str) -> str:
    """Return text with line ends and other unprintable characters as escapes."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?`, or an empty text if no known word is similar."""
    if len(word) > 64:  # similar to none, and slow to compare
        return ""
    import difflib  # imported late: takes 3 ms, and most files have no problem

    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
