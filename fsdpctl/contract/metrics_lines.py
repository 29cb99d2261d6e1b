"""Write lines of metrics.jsonl for a script of the user: by rank 0 through `fsdpctl.report`, or by its node's agent.

A script may also write the file itself: readers check what they take from a line.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeGuard

from fsdpctl.contract.codec import write_text
from fsdpctl.contract.files import read_bytes

RESERVED = ("step", "time", "attempt", "total")
"""The keys of a line that are no values of the script."""
COUNT_LIMIT = 2**63
"""A step is below it, as in all services and files that take one."""
_TIME_LIMIT = 1e11


def metrics_line(step: int, time: float, attempt: int, values: Mapping[str, float], total: int | None = None) -> bytes:
    """Return one line; `total` is the step at which the run is complete. A number that is not finite becomes null, and
    values by a reserved name are left out."""
    line: dict[str, Any] = {"step": step, "time": time, "attempt": attempt}
    if total is not None:
        line["total"] = total
    free = {name: value for name, value in values.items() if name not in RESERVED}
    numbers = {name: value if _is_finite(value) else None for name, value in free.items()}
    return (json.dumps({**line, **numbers}) + "\n").encode()


def remove_repeated(metrics: Path, step: int, attempt: int) -> None:
    """Remove the lines of older attempts from `step` on, because this attempt does these steps again. Raise OSError.

    The file is replaced, and not changed in place: what others have open stays as it was.
    """
    try:
        lines = read_bytes(metrics).decode(errors="replace").splitlines(keepends=True)
    except FileNotFoundError:
        return
    kept = len(lines)
    while kept and _is_repeated(lines[kept - 1], step, attempt):
        kept -= 1
    if kept < len(lines):
        write_text(metrics, "".join(lines[:kept]))


def is_step(value: object) -> TypeGuard[int]:
    """Return whether a value of a line, which a user's script may have written, can be a step."""
    return type(value) is int and abs(value) < COUNT_LIMIT


def is_time(value: object) -> TypeGuard[int | float]:
    """Return whether a value of a line, which a user's script may have written, can be a time."""
    return isinstance(value, int | float) and 0 <= value < _TIME_LIMIT


def _is_finite(value: float) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


def _is_repeated(text: str, step: int, attempt: int) -> bool:
    """Return whether a line is of a step that is done again, or was cut short; not a line that has no attempt."""
    try:
        line = json.loads(text)
        return int(line["attempt"]) < attempt and int(line["step"]) >= step
    except (ValueError, RecursionError):
        return True
    except (KeyError, TypeError):
        return False
