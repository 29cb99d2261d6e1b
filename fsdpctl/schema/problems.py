"""What is wrong with a file, one line a problem: `FILE:LINE: key.path: what is wrong; what is allowed`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from fsdpctl.errors import UsageError

MAX_SHOWN = 50

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True)
class Place:
    """A line of a file, or something typed that has no lines, like a `--set` option."""

    source: str
    line: int | None = None

    def at(self, line: int) -> Place:
        """Another line of the same file; what has no lines is one place."""
        return self if self.line is None else Place(self.source, line)

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class LocatedProblem:
    """What is wrong with a key, and where it was written."""

    place: Place
    path: KeyPath
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), key_path(self.path), self.text) if part)


class SpecError(UsageError):
    """The problems of one profile or job, all at once."""

    def __init__(self, what: str, problems: Sequence[LocatedProblem], num_more: int = 0) -> None:
        by_line = sorted(problems, key=lambda problem: problem.place.line or 0)
        lines = [str(problem) for problem in by_line[:MAX_SHOWN]]
        count = len(problems) + num_more
        if count > len(lines):
            lines.append(f"... and {count - len(lines)} more")
        super().__init__("\n".join([f"{what} has {count} {'problem' if count == 1 else 'problems'}", *lines]))


def fail(what: str, place: Place, text: str, path: KeyPath = ()) -> NoReturn:
    """Raise a SpecError for a problem after which nothing more can be found."""
    raise SpecError(what, [LocatedProblem(place, path, text)])


def key_path(path: KeyPath) -> str:
    """Write a path as a user would, like `nodes[0].address`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" if text else shorten(part)
    return shorten(text, 100)


def show(value: object) -> str:
    """Name a value in a few safe characters."""
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
    """Cut long text, so that one value cannot fill a screen, and keep it on one line."""
    return one_line(text if len(text) <= limit else f"{text[:limit]}...")


def one_line(text: str) -> str:
    """Write line ends and what else cannot be printed as escapes."""
    return text if text.isprintable() else json.dumps(text)[1:-1]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?`, or nothing when no known word is near."""
    if len(word) > 64:  # near to nothing, and slow to compare
        return ""
    import difflib  # takes 3 ms, and most files are right

    by_lower = {other.lower(): other for other in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return f"; did you mean {by_lower[near[0]]}?" if near else ""
