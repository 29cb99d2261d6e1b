"""The rows of a run's files that were not sent yet. Nothing is remembered but numbers: the files have everything.

A resume of the bundled trainer replaces `metrics.jsonl` by a shorter one before its first step; those of older attempts
may be discarded until then. So rows are read from the first one of this attempt on, and then from the beginning.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.files import open_file
from fsdpctl.contract.metrics_lines import is_step, is_time
from fsdpctl.trackers.tracker import Row

_MAX_BYTES = 2**20
_NO_VALUES = ("step", "time")


@dataclass(frozen=True)
class Sent:
    """What a service has: the step of its last row, and that of its last evaluation; scripts may begin with step 0."""

    step: int = -1
    evaluation: int = -1


class Feed:
    """Reads `metrics.jsonl` and `evaluations.jsonl` of one run, as they grow."""

    def __init__(self, metrics: Path, evaluations: Path, attempt: int) -> None:
        self._metrics, self._evaluations = _Lines(metrics), _Lines(evaluations)
        self._attempt = attempt
        self._held_back: list[dict[str, Any]] = []  # evaluations of steps that are not read yet
        self.has_begun = False

    def look(self) -> bool:
        """Return whether this attempt has written anything yet. Raise OSError."""
        if not self.has_begun:
            files = (self._metrics, self._evaluations)
            lines = (line for file in files for part in iter(file.read_on, None) for line in part)
            self.has_begun = any(line.get("attempt", self._attempt) == self._attempt for line in lines)
            if self.has_begun:
                self.rewind()
        return self.has_begun

    def rewind(self) -> None:
        """Read from the beginning again: what was read may not have been sent."""
        self._metrics.rewind()
        self._evaluations.rewind()
        self._held_back = []

    def read(self, sent: Sent) -> tuple[list[Row], Sent] | None:
        """Return the next rows after those that were sent, and what is sent once they are. Raise OSError.

        None at the end of the files; no rows where all that was read has been sent. The evaluation after a step is
        written before the next step, and read after it: none is missed.
        """
        lines, new_evaluations = self._metrics.read_on(), self._evaluations.read_on()
        if lines is None and new_evaluations is None:
            return None
        rows: dict[int, Row] = {}
        step, evaluation = sent.step, sent.evaluation
        for line in lines or ():
            if line["step"] > step:  # a step that is done again was sent before
                step = line["step"]
                rows[step] = _row(line)
        evaluations = [*self._held_back, *(new_evaluations or ())]
        self._held_back = [line for line in evaluations if line["step"] > step]
        for line in evaluations:
            if evaluation < line["step"] <= step:
                evaluation = line["step"]
                row = _row(line)
                values = {**(rows[evaluation].values if evaluation in rows else {}), **row.values}
                rows[evaluation] = Row(evaluation, row.time, values)
        return [rows[number] for number in sorted(rows)], Sent(step, evaluation)


def _row(line: Mapping[str, Any]) -> Row:
    found = {key: _number(value) for key, value in line.items() if key not in _NO_VALUES}
    numbers = {key: number for key, number in found.items() if number is not None}
    return Row(line["step"], float(time) if is_time(time := line.get("time")) else 0.0, numbers)


def _number(value: object) -> float | None:
    """Return a value of a line as a number; None if it is none, or too large for one."""
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


class _Lines:
    """The lines of a file that grows, and may be replaced by another one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.rewind()

    def rewind(self) -> None:
        self._file: tuple[int, int] | None = None
        self._offset = 0

    def read_on(self) -> list[dict[str, Any]] | None:
        """Return those of the next whole lines that have a step, of at most `_MAX_BYTES`; None if there are no more."""
        try:
            file = open_file(self._path)
        except FileNotFoundError:
            return None
        with file:
            status = os.fstat(file.fileno())
            if self._file != (status.st_dev, status.st_ino) or status.st_size < self._offset:
                self._file, self._offset = (status.st_dev, status.st_ino), 0
            file.seek(self._offset)
            data = file.read(_MAX_BYTES) or b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(data) == _MAX_BYTES and not whole:  # a line that no tracker could take
            whole = data
        self._offset += len(whole)
        return [line for text in whole.splitlines() if (line := _parse(text)) is not None] if whole else None


def _parse(text: bytes) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) and is_step(line.get("step")) else None
