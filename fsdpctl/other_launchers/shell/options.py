"""Options of a command line, by the long names of the program."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Syntax:
    """How a program's options are written."""

    short: Mapping[str, str]  # "-N" -> "nodes"
    flags: Collection[str]  # long names without a value


@dataclass(frozen=True)
class Parsed:
    """Options in their order, with values; a flag has None. `rest` begins with the first other word."""

    options: tuple[tuple[str, str | None], ...]
    rest: tuple[str, ...]

    def get(self, name: str) -> str | None:
        return next((value for known, value in reversed(self.options) if known == name), None)

    def __contains__(self, name: str) -> bool:
        return any(known == name for known, _ in self.options)


def parse_options(words: Sequence[str], syntax: Syntax) -> Parsed:
    """Return the options at the start of the words; underscores of a name are dashes."""
    options: list[tuple[str, str | None]] = []
    index = 0
    while index < len(words) and words[index].startswith("-") and words[index] not in ("-", "--"):
        name, equals, value = words[index].partition("=")
        if not name.startswith("--") and name not in syntax.short and name[:2] in syntax.short:
            name, equals, value = name[:2], "=", words[index][2:]  # -N2
        name = syntax.short.get(name, name.lstrip("-").replace("_", "-"))
        index += 1
        if equals:
            options.append((name, value))
        elif name in syntax.flags or index == len(words):
            options.append((name, None))
        else:
            options.append((name, words[index]))
            index += 1
    if words[index : index + 1] == ["--"] or tuple(words[index : index + 1]) == ("--",):
        index += 1
    return Parsed(tuple(options), tuple(words[index:]))
