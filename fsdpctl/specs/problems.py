"""What is wrong with a file, one line a problem: `FILE:LINE: key.path: what is wrong; what is allowed`."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from fsdpctl.errors import UsageError

MAX_SHOWN = 20

KeyPath = tuple[str | int, ...]


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file, or something typed that has no lines, like a `--set` option."""

    line: int | None
    source: str

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True)
class Problem:
    place: Place
    path: KeyPath
    text: str

    def __str__(self) -> str:
        return ": ".join(part for part in (str(self.place), key_path(self.path), self.text) if part)


class SpecError(UsageError):
    """The problems of one profile or job, all at once."""

    def __init__(self, what: str, problems: Sequence[Problem], hint: str | None = None) -> None:
        by_line = sorted(problems, key=lambda problem: problem.place.line or 0)
        lines = [str(problem) for problem in by_line[:MAX_SHOWN]]
        if len(problems) > MAX_SHOWN:
            lines.append(f"... and {len(problems) - MAX_SHOWN} more")
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        super().__init__("\n".join([f"{what} has {count}", *lines]), hint=hint)


def fail(what: str, place: Place, text: str, path: KeyPath = ()) -> NoReturn:
    """Raise a SpecError for a problem after which nothing more can be found."""
    raise SpecError(what, [Problem(place, path, text)])


def key_path(path: KeyPath) -> str:
    """Write a path as a user would: `nodes[0].address`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{shorten(part)}" if text else shorten(part)
    return text


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
            return json.dumps(shorten(value))
        case _:
            return shorten(json.dumps(value))


def shorten(text: str, limit: int = 40) -> str:
    """Cut long text, so that one value cannot fill a screen."""
    return text if len(text) <= limit else f"{text[:limit]}..."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `; did you mean X?`, or nothing when no known word is near."""
    # A long word is near to nothing, and comparing it would take long.
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6) if len(word) <= 64 else []
    return f"; did you mean {near[0]}?" if near else ""
