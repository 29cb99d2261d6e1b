"""What a rule is: a function that finds settings, with the reason and the remedy that are shown beside each finding."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from fsdpctl.lint.subject import Subject
from fsdpctl.specs.lint import RuleId

Severity = Literal["warning", "advice"]
"""What a finding costs: time, memory, a result or a secret, in nearly every case; or it depends on what is wanted.

What cannot work is no finding: it is refused.
"""


@dataclass(frozen=True)
class Found:
    """What a rule has found: the key that it is about, and what it means in this job."""

    key: str  # dotted, as in a job or a profile
    text: str


@dataclass(frozen=True)
class Rule:
    """One row of the table: docs/lint.md is written from it."""

    id: RuleId
    severity: Severity
    what: str
    why: str
    change: str
    source: str  # address of the page that has more, or one of docs/
    find: Callable[[Subject], Iterable[Found]]


@dataclass(frozen=True)
class Finding:
    """A rule that applies to a job on a profile."""

    rule: Rule
    key: str
    text: str


def rule(
    id: RuleId, severity: Severity, *, what: str, why: str, change: str, source: str
) -> Callable[[Callable[[Subject], Iterable[Found]]], Rule]:
    """Return a decorator that makes a function a rule."""
    return lambda find: Rule(id, severity, what, why, change, source, find)
