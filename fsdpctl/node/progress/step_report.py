"""One step that a script has finished, whichever source it is from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum

from fsdpctl.contract.metrics_lines import RESERVED


class Source(IntEnum):
    """Where a report is from. A higher one replaces those below it; `fsdpctl.report` is above all."""

    TENSORBOARD = 1
    LOG = 2
    TRAINER = 3


@dataclass(frozen=True)
class StepReport:
    """One finished step."""

    step: int
    time: float  # seconds since the epoch
    values: Mapping[str, float] = field(default_factory=dict)
    total: int | None = None  # the step at which training is complete


def parse_number(text: object) -> float | None:
    """Return the number that a value or a piece of text is, with or without thousands separators; else None."""
    if isinstance(text, bool) or not isinstance(text, int | float | str):
        return None
    try:
        return float(text.replace(",", "") if isinstance(text, str) else text)
    except (ValueError, OverflowError):
        return None


def parse_count(text: object) -> int | None:
    """Return the whole number, zero or more, that a value or a piece of text is; else None."""
    number = parse_number(text)
    return int(number) if number is not None and number >= 0 and number.is_integer() else None


def choose_values(found: Mapping[str, float | None]) -> dict[str, float]:
    """Return the values that a line of metrics may have: numbers whose names are not those of other keys."""
    return {name: value for name, value in found.items() if value is not None and name not in RESERVED}
