"""All rules, from `rules/*.yaml`: read when first needed. Their order, files by name, is their rank."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fsdpctl.contract import Cause
from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.explain.rule import Rule
from fsdpctl.schema.yaml_tree import parse_mapping

FOLDER = Path(__file__).with_name("rules")


@dataclass(frozen=True)
class _RuleFile:
    """One file: rules that belong together, under the heading that the docs give them."""

    heading: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True)
class Rulebook:
    """All rules in the order of their rank."""

    sections: tuple[tuple[str, tuple[Rule, ...]], ...]  # heading -> rules

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(rule for _, rules in self.sections for rule in rules)


@cache
def rulebook() -> Rulebook:
    """Return the rules of fsdpctl."""
    return read_rules(FOLDER)


@cache
def all_rules() -> tuple[Rule, ...]:
    """Return all rules in the order of their rank."""
    return rulebook().rules


def rule_of(rule_id: str) -> Rule:
    """Return the rule of an id. Raise KeyError if there is none."""
    return _by_id()[rule_id]


@cache
def _by_id() -> dict[str, Rule]:
    return {rule.id: rule for rule in all_rules()}


def rules_for_cause(cause: Cause) -> tuple[Rule, ...]:
    """Return the rules for attempts that ended by this cause."""
    return tuple(rule for rule in all_rules() if cause in rule.causes)


def read_rules(folder: Path) -> Rulebook:
    """Read all files of a folder; patterns are compiled when they are first searched. Raise SpecError or CodecError for
    the first that is wrong."""
    files = [_read(path) for path in sorted(folder.glob("*.yaml"))]
    ids = [rule.id for file in files for rule in file.rules]
    if repeated := sorted({one for one in ids if ids.count(one) > 1}):
        raise CodecError(f"{folder}: rules given twice: {', '.join(repeated)}")
    return Rulebook(tuple((file.heading, file.rules) for file in files))


def _read(path: Path) -> _RuleFile:
    document = parse_mapping(path.read_text(encoding="utf-8"), str(path), f"rules {path.name}")
    try:
        if document.problems:
            raise CodecError("; ".join(map(str, document.problems)))
        return decode(_RuleFile, document.tree)
    except CodecError as error:
        raise CodecError(f"{path}: {error}") from None


def check_rule(rule: Rule) -> None:
    """Raise CodecError or re.error if a rule cannot be used: tests hold all of fsdpctl's to it, commands do not."""
    if not (rule.exceptions or rule.lines or rule.causes):
        raise CodecError(f"{rule.id}: needs exceptions, lines or causes")
    if not rule.remedy or not 0 < rule.confidence <= 1:
        raise CodecError(f"{rule.id}: needs a remedy, and a confidence of at most 1")
    patterns = (*rule.exception_patterns, *rule.line_patterns)  # compiles all of them
    known = {name.partition("__")[0] for pattern in patterns for name in pattern.groupindex}
    used = set(re.findall(r"{(\w+)}", "\n".join((rule.sentence, *rule.remedy))))
    if not rule.causes and (missing := sorted(used - known)):
        raise CodecError(f"{rule.id}: no pattern has the group {missing[0]}")
