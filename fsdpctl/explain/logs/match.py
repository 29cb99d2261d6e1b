"""Find the rules that fit the lines of one process's log."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache

from fsdpctl.contract.stack_dump import Frame
from fsdpctl.explain.categories import Category, Role
from fsdpctl.explain.logs.prefilter import is_decided_by_words, shape_of
from fsdpctl.explain.logs.statements import Link, Statement, read_messages, read_statements
from fsdpctl.explain.rule import Rule, Strength, read_fields
from fsdpctl.explain.rulebook import all_rules

_OF_MESSAGE = 0.6
"""How sure a message in the middle of a line is, compared to an exception."""


_CLASS = re.compile(r"(?:[\w.:]+[.:])?(?P<name>[A-Z]\w*)(?=:|$)")
_OF_CLASS = {Category.RUNTIME_ERROR, Category.EXCEPTION}
_ENDS = re.compile(
    r"(?i)(?:[-,;:.!)]\s|\band )(?:aborting|stopping|exiting|quitting|terminating|giving up|bailing out)\b"
)


@dataclass(frozen=True)
class Match:
    """A rule that fits a text; `number` is the line from 1, `line` the first line of the text."""

    rule: Rule
    number: int
    line: str
    fields: Mapping[str, str]  # named groups, like tried, reserved, collective, seq, address
    is_exception: bool = False
    is_message: bool = False  # a message in the middle of a line, which is only a hint
    in_traceback: bool = False
    is_handled: bool = False  # the process continued
    link: Link = Link.NONE
    frames: tuple[Frame, ...] = ()

    @property
    def strength(self) -> Strength:
        """What the match proves: an uncaught exception is no hint, nor is a message that announces the end."""
        if self.is_message or self.is_handled:
            return Strength.HINT
        ends = self.is_exception or (self.rule.role is Role.INITIATING and _ENDS.search(self.line))
        return Strength.CERTAIN if ends and self.rule.strength is Strength.HINT else self.rule.strength

    @property
    def category(self) -> Category:
        """What failed; of an error that fits no other category, that of its class."""
        raised = _CLASS.match(self.line) if self.is_exception else None
        if raised is None or self.rule.category not in _OF_CLASS or self.rule.role is not Role.INITIATING:
            return self.rule.category
        is_error = raised["name"].endswith("RuntimeError") or raised[0] == "c10::Error"
        return Category.RUNTIME_ERROR if is_error else Category.EXCEPTION

    @property
    def confidence(self) -> float:
        return self.rule.confidence * (_OF_MESSAGE if self.is_message else 1.0)

    @property
    def sentence(self) -> str:
        return self.rule.explain(self.fields)

    @property
    def remedy(self) -> tuple[str, ...]:
        return self.rule.advise(self.fields)


def match_text(lines: Iterable[str]) -> list[Match]:
    """Return the best rule for each exception and line that one fits, in the order of the text."""
    text = list(lines)
    unfit: set[str] = set()
    found = [_match_once(statement, unfit) for statement in read_statements(text)]
    if not any(found):
        found = [_match(statement, _rules_of_messages()) for statement in read_messages(text)]
    return _spread_handled([match for match in found if match is not None])


def _spread_handled(matches: list[Match]) -> list[Match]:
    """Return the matches; exceptions for which another was raised were handled if that one was."""
    is_handled = False
    for at in reversed(range(len(matches))):
        match = matches[at]
        matches[at] = replace(match, is_handled=match.is_handled or is_handled)
        is_handled = matches[at].is_handled and match.link is not Link.NONE
    return matches


def _match_once(statement: Statement, unfit: set[str]) -> Match | None:
    """Return the best rule for a statement; for lines of one shape, of which the first fits none, only once."""
    if statement.is_exception:
        found = _match(statement, _rules(True))
        if statement.in_traceback or (found is not None and found.strength is not Strength.GENERIC):
            return found
        line = replace(statement, text=statement.text.partition("\n")[0], is_exception=False)
        return _match(line, _rules(False)) or found  # programs begin the line with "Error: ", too
    shape = shape_of(statement.text)
    if shape in unfit:
        return None
    found = _match(statement, _rules(False))
    if found is None and is_decided_by_words(shape):
        unfit.add(shape)
    return found


def _match(statement: Statement, rules: Iterable[Rule]) -> Match | None:
    for rule in rules:
        if rule.is_of(frame.file for frame in statement.frames) and (fields := _fields(rule, statement)) is not None:
            return Match(
                rule=rule,
                number=statement.number + 1,
                line=statement.text.partition("\n")[0],
                fields=fields,
                is_exception=statement.is_exception,
                is_message=statement.is_message,
                in_traceback=statement.in_traceback,
                is_handled=statement.is_handled,
                link=statement.link,
                frames=statement.frames,
            )
    return None


def _fields(rule: Rule, statement: Statement) -> dict[str, str] | None:
    """Return the named groups of the rule's pattern that fits; None if none does."""
    for pattern in rule.exception_patterns if statement.is_exception else rule.line_patterns:
        # A message without its exception begins where the text does.
        find = pattern.match if statement.is_bare else pattern.search
        if found := find(statement.text):
            fields = read_fields(found)
            if rule.holds(fields):
                return fields
    return None


@cache
def _rules(is_exception: bool) -> tuple[Rule, ...]:
    """Return the rules for exceptions or lines; a line may be of several processes, of which others are only ended."""
    rules = (rule for rule in all_rules() if (rule.exceptions if is_exception else rule.lines))
    return tuple(sorted(rules, key=lambda rule: not is_exception and rule.role is Role.TEARDOWN))


@cache
def _rules_of_messages() -> tuple[Rule, ...]:
    return tuple(rule for rule in _rules(True) if rule.anywhere)
