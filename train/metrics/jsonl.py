"""metrics.jsonl: one line per optimizer step, no gap and no repeat over any number of resumes.

evaluations.jsonl: the same of evaluations, as far as the disk takes it.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import write_text
from fsdpctl.contract.files import read_bytes
from train.context import RankContext
from train.metrics.writer import HeldOutLoss, MetricsWriter, StepMetrics, finite_or_none


class JsonlWriter(MetricsWriter):
    """Appends to metrics.jsonl, after cutting off what is beyond the checkpoint that training starts from."""

    def __init__(self, path: Path, evaluations: Path, start_step: int, attempt: int = 0) -> None:
        kept = cut(_lines(path), start_step)
        write_text(path, "".join(line + "\n" for line in kept))  # a new file: what an older attempt holds is another
        self.first_loss: float | None = next(_losses(kept), None)
        self.last_loss: float | None = next(_losses(reversed(kept)), None)
        self._file = path.open("ab", buffering=0)  # a line at a time, for those who follow
        self._unwritten = b""
        self._lock = threading.Lock()  # `sync` is called by the thread that saves
        self._evaluations, self._attempt = evaluations, attempt
        evaluated = _lines(evaluations)
        self._evaluated = cut(evaluated, start_step)
        if len(self._evaluated) < len(evaluated):
            self._write_evaluations()

    @classmethod
    def open(cls, context: RankContext, start_step: int) -> JsonlWriter:
        """Open the metrics file of the run."""
        return cls(context.paths.metrics, context.paths.evaluations, start_step, context.attempt)

    def write(self, metrics: StepMetrics) -> None:
        """Append a line. On a full disk it is kept, and training continues: the next checkpoint has to face it."""
        if self.first_loss is None:
            self.first_loss = metrics.loss
        if metrics.loss is not None:
            self.last_loss = metrics.loss
        with self._lock, contextlib.suppress(OSError):
            self._unwritten += json.dumps(asdict(metrics)).encode() + b"\n"
            self._flush()

    def write_held_out(self, held_out: HeldOutLoss) -> None:
        """Add a line to the evaluations; one of the same step, of an older attempt, had the same result."""
        if self.has_held_out(held_out.step):
            return
        line = {
            "step": held_out.step,
            "held_out_loss": finite_or_none(held_out.loss),
            "time": round(time.time(), 3),
            "attempt": self._attempt,
        }
        self._evaluated = [*self._evaluated, json.dumps(line)]
        with contextlib.suppress(OSError):
            self._write_evaluations()

    def has_held_out(self, step: int) -> bool:
        """Return whether this evaluation, the newest, is in the file."""
        return any(record["step"] == step for record in _records(self._evaluated[-1:]))

    def _write_evaluations(self) -> None:
        write_text(self._evaluations, "".join(line + "\n" for line in self._evaluated))

    def sync(self) -> None:
        """Bring all lines to disk: a checkpoint must not know more steps than this file. Raises OSError."""
        with self._lock:
            self._flush()
        os.fsync(self._file.fileno())

    def summary(self) -> dict[str, float]:
        """Return the first and the last finite loss of the whole run."""
        if self.first_loss is None or self.last_loss is None:
            return {}
        return {"first_loss": self.first_loss, "last_loss": self.last_loss}

    def _flush(self) -> None:
        while self._unwritten:
            written = self._file.write(self._unwritten)
            self._unwritten = self._unwritten[written:]

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the records of a metrics file; a last line that was cut short is dropped."""
    yield from _records(_lines(path))


def cut(lines: Sequence[str], step: int) -> Sequence[str]:
    """Return the lines up to a step. They are in order, and only those that go are parsed: all 100,000 take seconds."""
    end = len(lines)
    while end and not any(record["step"] <= step for record in _records([lines[end - 1]])):
        end -= 1
    return lines[:end]


def _lines(path: Path) -> list[str]:
    return read_bytes(path).decode(errors="replace").splitlines() if path.exists() else []


def _records(lines: Iterable[str]) -> Iterator[dict[str, Any]]:
    for line in lines:
        with contextlib.suppress(ValueError):
            yield json.loads(line)


def _losses(lines: Iterable[str]) -> Iterator[float]:
    return (record["loss"] for record in _records(lines) if record["loss"] is not None)
