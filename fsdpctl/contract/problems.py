"""What is wrong with the keys of a profile or a job, before anyone looks up where they were written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """A key whose value cannot be used, and why."""

    key: str  # dotted, like `trainer.mesh`; "" for the whole document
    text: str
    follows_from: tuple[str, ...] = ()  # keys, with all below them, whose values the problem can come of

    @property
    def keys(self) -> tuple[str, ...]:
        return (self.key, *self.follows_from) if self.key else self.follows_from

    def __str__(self) -> str:
        return f"{self.key}: {self.text}" if self.key else self.text


class RuleError(ValueError):
    """Keys that do not go together: all problems at once."""

    def __init__(self, *problems: Problem) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


def broken_rule(text: str, *keys: str) -> RuleError:
    """Return the error of one rule over `keys`, which `text` names as well."""
    return RuleError(Problem("", text, keys))


def refuse(problems: Sequence[Problem]) -> None:
    """Raise RuleError with the problems that a rule has found, if any."""
    if problems:
        raise RuleError(*problems)
