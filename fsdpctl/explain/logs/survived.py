"""Failures that a process survived: what it printed after them is progress."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from fsdpctl.explain.logs.choose import OFTEN_CAUGHT
from fsdpctl.explain.logs.match import Match
from fsdpctl.explain.rule import Strength

_PROGRESS = re.compile(
    r"(?i)(?:^|[\s\[({,\"'|])(?:global[ _])?(?:step|iter|iteration|epoch|batch|samples)s?\b[\"']?\s?[\s:=#\[/]\s?\[?\d"
    r"|\bloss\b\W{1,4}-?\d|\d(?:it/s|s/it)\b|\b100%\|"
)
_NAN = re.compile(r"(?i)\bnan\b(?! iterations)")  # Megatron counts them in each line
_SUMMARY = re.compile(r"\s*wandb")  # it prints the last values after a failure, too
_END = re.compile(
    r"(?i)\b(?:training|finetuning|fine-tuning) (?:is |has )?(?:completed?|finished|succeeded)\b|train_runtime"
)
_STEPS = 3
"""Lines of progress of its own rank after which a failure was caught."""
_STEPS_OF_MANY = 10
"""The same where the lines are of many ranks: others continue for a moment."""


def fatal_matches(matches: Sequence[Match], lines: Sequence[str], *, many: bool = False) -> list[Match]:
    """Return the matches that the process did not survive."""
    if not matches:
        return []
    progress = [
        number
        for number, text in enumerate(lines[matches[0].number :], matches[0].number + 1)
        if _PROGRESS.search(text) and not _NAN.search(text) and not _SUMMARY.match(text)
    ]
    if any(_END.search(text) for text in lines[matches[-1].number :]):
        return []

    def is_fatal(match: Match) -> bool:
        is_grave = match.strength is not Strength.HINT and match.rule.category not in OFTEN_CAUGHT
        steps = _STEPS_OF_MANY if many and is_grave else _STEPS
        return len(progress) - bisect_left(progress, match.number + 1) < steps

    return [match for match in matches if is_fatal(match)]
