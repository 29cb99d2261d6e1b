"""Failures that a process survived: what it printed after them is progress."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence

from fsdpctl.explain.match import Match

_PROGRESS = re.compile(
    r"(?i)(?:^|[\s\[({,\"'|])(?:global[ _])?(?:step|iter|iteration|epoch|batch|samples)s?\b[\"']?\s?[\s:=#\[/]\s?\[?\d"
    r"|\bloss\b\W{1,4}-?\d|\d(?:it/s|s/it)\b|\b100%\|"
)
_NAN = re.compile(r"(?i)\bnan\b(?! iterations)")  # Megatron counts them in each line
_END = re.compile(
    r"(?i)\b(?:training|run|job|finetuning|fine-tuning|evaluation) (?:is |has )?"
    r"(?:completed?|finished|done|succeeded)\b(?! with errors)|^(?:done|finished|success)\W*$|train_runtime"
)
_STEPS = 3
"""Lines of progress of its own rank after which a failure was caught."""


def fatal_matches(matches: Sequence[Match], lines: Sequence[str]) -> list[Match]:
    """Return the matches that the process did not survive."""
    if not matches:
        return []
    progress = [
        number
        for number, text in enumerate(lines[matches[0].number :], matches[0].number + 1)
        if _PROGRESS.search(text) and not _NAN.search(text)
    ]
    ends = [number for number, text in enumerate(lines, 1) if number > matches[-1].number and _END.search(text)]
    if ends:
        return []
    return [match for match in matches if len(progress) - bisect_left(progress, match.number + 1) < _STEPS]
