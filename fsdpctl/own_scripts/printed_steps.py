"""Steps that a script prints: the pattern of its lines, as `progress_regex` of a job would be. Pure.

A line counts only if it has a loss, too: one that announces a step or an epoch comes before any step is done.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBER = r"[\d.]*\d(?:e[-+]?\d+)?"
_BETWEEN = r"[\s:=,\[\]()#|*-]*"
_LINE_LIMIT = 2000
_WORDS = (r"(?:global_|global )?step", r"iter(?:ation)?", r"epoch")  # the first that a line has counts
_COUNTS = (
    *(rf"(?P<name>\b{word}s?){_BETWEEN}(?P<step>\d+)(?P<total>{_BETWEEN}(?:/|of){_BETWEEN}\d+)?" for word in _WORDS),
    r"(?P<name>)(?<![\w./])(?P<step>\d+)(?P<total>/\d+)",
)
_STEPS = [
    re.compile(rf"{count}\b(?P<gap>.*?)(?P<loss>\b(?:\w+[_/])?loss){_BETWEEN}{_NUMBER}", re.IGNORECASE)
    for count in _COUNTS
]


@dataclass(frozen=True)
class PrintedStep:
    """A line of a script that reports a step with its loss."""

    step: int
    line: str
    pattern: str  # a value of `progress_regex` that finds it


def find_printed_step(lines: Iterable[str]) -> PrintedStep | None:
    """Return the first line that reports a step; None if there is none."""
    for text in lines:
        line = text.strip()[:_LINE_LIMIT]
        for steps in _STEPS:
            if found := steps.search(line):
                return PrintedStep(int(found["step"]), line, _pattern_of(found))
    return None


def _pattern_of(found: re.Match[str]) -> str:
    """Return the pattern of lines like this one: its words as they are, its numbers as groups."""
    text, start = found.string, found.start()
    total = found["total"] or ""
    between = text[found.end("name") : found.start("step")]
    parts = [_literal(text[start : found.end("name")]), _literal(between), r"(?P<step>\d+)"]
    if total:
        parts.append(_literal(total.rstrip("0123456789")) + r"(?P<total>\d+)")
    after = re.match(_BETWEEN, text[found.end("loss") :])
    parts += [".*?", _literal(found["loss"]), _literal(after[0] if after else ""), rf"(?P<loss>{_NUMBER})"]
    return "".join(parts)


def _literal(text: str) -> str:
    """Return a pattern of the text, in which any number of blanks may be between two words."""
    return r"\s+".join(re.escape(part) for part in re.split(r"\s+", text))
