"""Read the progress of a run from metrics.jsonl, while the trainer or the user's script may be writing it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import Any

from fsdpctl.contract.files import open_file, read_bytes, read_tail
from fsdpctl.contract.paths import RunPaths

_TAIL_BYTES = 16_384


def total_steps(run: RunPaths) -> int | None:
    """Return the number of steps of a run of the bundled trainer; None for other runs."""
    try:
        config = _parse(read_bytes(run.trainer_config))
    except OSError:
        return None
    steps = config.get("steps") if config is not None else None
    return steps if isinstance(steps, int) else None


def read_metrics(metrics: Path) -> Iterator[dict[str, Any]]:
    """Yield all complete lines of metrics.jsonl, in order."""
    try:
        with BufferedReader(open_file(metrics)) as file:
            for line in file:
                if line.endswith(b"\n") and (found := _parse_metrics(line)) is not None:
                    yield found
    except FileNotFoundError:
        return


def recent_metrics(metrics: Path) -> list[dict[str, Any]]:
    """Return the newest complete lines of metrics.jsonl, in order."""
    try:
        lines = read_tail(metrics, _TAIL_BYTES).split(b"\n")[:-1]
    except OSError:
        return []
    return [found for line in lines if (found := _parse_metrics(line)) is not None]


def _parse_metrics(line: bytes) -> dict[str, Any] | None:
    """Return one line, or None if it is not valid: a user's script may write anything, but a step is a whole number."""
    found = _parse(line)
    return found if found is not None and type(found.get("step", 0)) is int else None


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def newest_step(run: RunPaths) -> int:
    """Return the newest step of the run; 0 before the first."""
    lines = recent_metrics(run.metrics)
    return int(lines[-1].get("step", 0)) if lines else 0
