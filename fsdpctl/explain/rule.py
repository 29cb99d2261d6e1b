"""A rule: how a failure looks in a log or a record, what it means, and what to change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from fsdpctl.contract import Cause
from fsdpctl.explain.categories import Category, Domain, Role

_BYTES = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40}
_AGAIN = "__"
_GROUP = re.compile(r"\(\?P<(\w+)>")
_FIELD = re.compile(r"{(\w+)}")
_PERIODS = re.compile(r"(?<!\.)(\.\.\.|\.)\.$")
_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")


class Strength(StrEnum):
    """What a match proves."""

    CERTAIN = "certain"  # this ended the process
    GENERIC = "generic"  # this ended the process, but only its type is known
    HINT = "hint"  # a message that explains a failure, and is harmless without one


@dataclass(frozen=True)
class Rule:
    """One kind of failure. The order of the rules is their rank: the first that fits a text is taken.

    Named groups of the patterns are fields of `sentence` and `remedy`. A part of a sentence in brackets is left out
    if one of its fields is unknown, and so is a whole remedy.
    """

    id: str
    category: Category
    domain: Domain
    retry: bool  # would the same job succeed, started again?
    sentence: str
    remedy: tuple[str, ...]  # the smallest change first
    docs: str = ""  # a page of docs/, with its anchor
    exceptions: tuple[str, ...] = ()  # searched in `Type: message`
    anywhere: bool = True  # the message alone, in the middle of a line, is a hint if a log has nothing better
    lines: tuple[str, ...] = ()  # searched in a line that is no exception
    within: str = ""  # searched in the files of a traceback, one a line, the innermost last
    condition: str = ""  # sizes of two groups, like `reserved - allocated > tried`
    causes: tuple[Cause, ...] = ()  # of records: fits an attempt that ended by one of them
    role: Role = Role.INITIATING  # of such a text beside the failures of other ranks
    strength: Strength = Strength.CERTAIN
    confidence: float = 0.9
    shows: tuple[str, ...] = ()  # texts that it fits, as the docs show them

    @cached_property
    def exception_patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(map(_compile, self.exceptions))

    @cached_property
    def line_patterns(self) -> tuple[re.Pattern[str], ...]:
        return tuple(map(_compile, self.lines))

    def is_of(self, files: Iterable[str]) -> bool:
        """Return whether it may fit an exception with the frames of these files."""
        return not self.within or re.search(self.within, "\n".join(files)) is not None

    def holds(self, fields: Mapping[str, str]) -> bool:
        """Return whether the condition is true of the sizes in a text; without a condition, always."""
        left, _, right = self.condition.partition(" > ")
        return not right or _difference(left, fields) > _difference(right, fields)

    def explain(self, fields: Mapping[str, str]) -> str:
        """Return the sentence with its fields."""
        kept = _OPTIONAL.sub(lambda part: part[1] if _is_known(part[1], fields) else "", self.sentence)
        return end_sentence(_fill(kept, fields))

    def advise(self, fields: Mapping[str, str]) -> tuple[str, ...]:
        """Return what to change, with its fields; without what needs an unknown one."""
        return tuple(_fill(text, fields) for text in self.remedy if _is_known(text, fields))


def end_sentence(text: str) -> str:
    """Return a sentence without its own period where its last field ends with one, as messages of libraries do."""
    return _PERIODS.sub(r"\1", text)


def _compile(pattern: str) -> re.Pattern[str]:
    """Compile a pattern in which several branches may name the same group."""
    seen: list[str] = []

    def number(group: re.Match[str]) -> str:
        seen.append(group[1])
        return f"(?P<{group[1]}{_AGAIN}{len(seen)}>" if group[1] in seen[:-1] else group[0]

    return re.compile(_GROUP.sub(number, pattern))


def read_fields(found: re.Match[str]) -> dict[str, str]:
    """Return the named groups of a match that are set."""
    return {name.partition(_AGAIN)[0]: value for name, value in found.groupdict().items() if value is not None}


def _difference(expression: str, fields: Mapping[str, str]) -> float:
    first, *others = (_size(fields[name]) for name in expression.split(" - "))
    return first - sum(others)


def _size(text: str) -> float:
    number, _, unit = text.partition(" ")
    return float(number) * _BYTES.get(unit, 1)


def _is_known(text: str, fields: Mapping[str, str]) -> bool:
    return all(name in fields for name in _FIELD.findall(text))


def _fill(text: str, fields: Mapping[str, str]) -> str:
    return _FIELD.sub(lambda field: fields.get(field[1], "unknown"), text)
