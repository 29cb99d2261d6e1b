"""How far a run is: its metrics.jsonl, which the trainer or the user's script may be writing."""

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
    """The length of a run of the bundled trainer."""
    try:
        config = _parse(read_bytes(run.trainer_config))
    except OSError:
        return None
    steps = config.get("steps") if config is not None else None
    return steps if isinstance(steps, int) else None


def read_metrics(metrics: Path) -> Iterator[dict[str, Any]]:
    """All whole lines of metrics.jsonl, in order; none before the first."""
    try:
        with BufferedReader(open_file(metrics)) as file:
            for line in file:
                if line.endswith(b"\n") and (found := _parse_metrics(line)) is not None:
                    yield found
    except FileNotFoundError:
        return


def recent_metrics(metrics: Path) -> list[dict[str, Any]]:
    """The newest whole lines of metrics.jsonl, in order; the trainer may be writing the next one."""
    try:
        lines = read_tail(metrics, _TAIL_BYTES).split(b"\n")[:-1]
    except OSError:
        return []
    return [found for line in lines if (found := _parse_metrics(line)) is not None]


def _parse_metrics(line: bytes) -> dict[str, Any] | None:
    """A user's script may write what it likes; what it calls a step is one only if it is a whole number."""
    found = _parse(line)
    return found if found is not None and type(found.get("step", 0)) is int else None


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def newest_step(run: RunPaths) -> int:
    """The last step that any attempt has reached; 0 before the first."""
    lines = recent_metrics(run.metrics)
    return int(lines[-1].get("step", 0)) if lines else 0
