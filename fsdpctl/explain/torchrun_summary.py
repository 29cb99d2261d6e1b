"""The summary that torchrun prints at its end: which rank it saw fail first, and where."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_ROOT = "Root Cause (first observed failure):"
_KEY = re.compile(r"\s*(host|rank|exitcode)\s*:\s*(\S+)")


@dataclass(frozen=True)
class TorchrunSummary:
    """The first failure that torchrun observed."""

    rank: int
    host: str
    exit_code: int


def find_summary(lines: Iterable[str]) -> TorchrunSummary | None:
    """Return the last summary in these lines."""
    found = None
    values: dict[str, str] | None = None
    for line in lines:
        if _ROOT in line:
            values = {}
        elif values is not None and (key := _KEY.match(line)):
            values.setdefault(key[1], key[2])
            if len(values) == 3:
                found, values = _summary(values) or found, None
    return found


def _summary(values: dict[str, str]) -> TorchrunSummary | None:
    try:
        return TorchrunSummary(int(values["rank"]), values["host"], int(values["exitcode"]))
    except ValueError:
        return None
