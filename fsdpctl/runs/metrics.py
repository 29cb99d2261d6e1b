"""Read the progress of a run from metrics.jsonl, while the trainer or the user's script may be writing it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader, FileIO
from itertools import islice
from pathlib import Path
from typing import Any

from fsdpctl.contract.files import open_file, read_bytes, read_tail
from fsdpctl.contract.metrics_lines import COUNT_LIMIT, is_step, is_time
from fsdpctl.contract.paths import RunPaths

_TAIL_BYTES = 16_384
_decode = json.JSONDecoder().raw_decode  # `json.loads` takes half as long again for a line
_LARGEST = 1e300  # as COUNT_LIMIT, so that no difference or quotient of two overflows
_COUNTS = frozenset({"time", "tokens", "tokens_per_s", "total"})
NUMBERS = _COUNTS | {"loss", "grad_norm", "lr", "mfu"}
"""Keys of a line from which text, JSON or another number is made."""


def total_steps(run: RunPaths, lines: Sequence[dict[str, Any]]) -> int | None:
    """Return the number of steps of a run: of the bundled trainer as configured, of a user's script as its newest line
    has it; None where that is not known."""
    try:
        config = _parse(read_bytes(run.trainer_config)) or {}
        steps = config.get("steps")
    except OSError:
        steps = lines[-1].get("total") if lines else None
    return steps if type(steps) is int and steps > 0 else None


def read_metrics(metrics: Path) -> Iterator[dict[str, Any]]:
    """Yield all complete lines of metrics.jsonl, in order."""
    try:
        with BufferedReader(open_file(metrics)) as file:
            for line in file:
                if not line.endswith(b"\n"):
                    return  # its rest may come before the next read, which would take that for a line
                if (found := parse_line(line)) is not None:
                    yield found
    except FileNotFoundError:
        return


def recent_metrics(metrics: Path, count: int) -> list[dict[str, Any]]:
    """Return at most `count` of the newest complete lines of metrics.jsonl, in order."""
    try:
        lines = read_tail(metrics, _TAIL_BYTES).split(b"\n")[:-1]
    except OSError:
        return []
    newest_first = (found for line in reversed(lines) if (found := parse_line(line)) is not None)
    return list(islice(newest_first, count))[::-1]


def parse_line(line: bytes) -> dict[str, Any] | None:
    """Return one line, or None if it is not valid: a user's script may write anything, but a step is a whole number.

    Numbers that are read from it are finite: one that is not is None, and what is no number is left out.
    """
    found = _parse(line)
    if found is None or not is_step(found.get("step", 0)):
        return None
    for key in NUMBERS & found.keys():
        value = found[key]
        if type(value) not in (int, float) and value is not None:
            del found[key]
        elif value is not None and not abs(value) < (COUNT_LIMIT if key in _COUNTS else _LARGEST):  # NaN, too
            found[key] = None
    return found


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        text = line.decode().strip()
        found, end = _decode(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and end == len(text) else None


@dataclass(frozen=True)
class Span:
    """The lines of one attempt: when its first and its last step ended, in seconds since the epoch."""

    attempt: int
    first: float
    last: float


def attempt_spans(metrics: Path) -> list[Span]:
    """Return the spans of all attempts in order; none for a script that records neither `time` nor `attempt`.

    Lines are in the order of attempts, so the end of each is found by bisection: a file may have a million lines.
    """
    spans: list[Span] = []
    try:
        with BufferedReader(open_file(metrics)) as file:
            size, position = file.seek(0, os.SEEK_END), 0
            while (first := _next_line(file, position)) is not None:
                last = _last_of_attempt(file, first, size)
                spans.append(Span(first.attempt, first.time, last.time))
                position = last.end
    except OSError:
        pass
    return spans


@dataclass(frozen=True)
class _Line:
    start: int
    end: int
    attempt: int
    time: float


def _next_line(file: BufferedReader[FileIO], position: int) -> _Line | None:
    """Return the first complete line with an attempt and a time that starts at `position` or later."""
    file.seek(max(0, position - 1))
    if position:
        file.readline()  # the rest of the line before
    start = file.tell()
    while (raw := file.readline()).endswith(b"\n"):
        line = parse_line(raw) or {}
        attempt, time = line.get("attempt"), line.get("time")
        if isinstance(attempt, int) and is_time(time):
            return _Line(start, start + len(raw), attempt, float(time))
        start += len(raw)
    return None


def _last_of_attempt(file: BufferedReader[FileIO], first: _Line, size: int) -> _Line:
    last, end = first, size
    while last.end < end:
        middle = (last.end + end) // 2
        found = _next_line(file, middle)
        if found is None or found.attempt != first.attempt or found.start >= end:
            end = middle
        else:
            last = found
    following = _next_line(file, last.end)
    return following if following is not None and following.attempt == first.attempt else last


def newest_step(run: RunPaths) -> tuple[int, float]:
    """Return the newest step of the run and when it ended, in seconds since the epoch; 0 for what is not known."""
    line = next(iter(recent_metrics(run.metrics, 1)), {})
    time = line.get("time")
    return int(line.get("step", 0)), float(time) if is_time(time) else 0.0
