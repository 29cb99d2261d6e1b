"""metrics.jsonl and TensorBoard: one record per optimizer step, no gap and no repeat over any number of resumes."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fsdpctl.contract.codec import write_text
from fsdpctl.contract.files import read_bytes

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StepMetrics:
    """One line of metrics.jsonl."""

    step: int  # optimizer steps done, this one included
    loss: float | None  # nats a token, over the valid tokens of the global batch; null: not finite
    loss_hex: str  # the same to the bit, or nan, inf
    samples: str  # digest of the sequences of this step
    lr: float
    grad_norm: float | None  # before clipping; null: not finite
    tokens_per_s: float
    tokens: int  # seen so far
    time: float  # seconds since the epoch
    attempt: int
    valid_tokens: int  # targets of this step that counted
    skipped: int  # steps so far that changed nothing, because loss or gradient were not finite
    loss_scale: float  # 1 unless the precision is fp16
    slow_ranks: Mapping[str, str]  # rank -> host of those whose own work takes longer than the others'


class JsonlWriter:
    """Appends to metrics.jsonl, after cutting away what lies beyond the checkpoint that training starts from."""

    def __init__(self, path: Path, start_step: int) -> None:
        kept = cut(_lines(path), start_step)
        write_text(path, "".join(line + "\n" for line in kept))  # a new file: what an older attempt holds is another
        self.first_loss: float | None = next(_losses(kept), None)
        self.last_loss: float | None = next(_losses(reversed(kept)), None)
        self._file = path.open("ab", buffering=0)  # a line at a time, for those who follow
        self._unwritten = b""
        self._lock = threading.Lock()  # `sync` is called by the thread that saves

    def write(self, metrics: StepMetrics) -> None:
        """Append a line. On a full disk it is kept, and training goes on: the next checkpoint has to face it."""
        if self.first_loss is None:
            self.first_loss = metrics.loss
        if metrics.loss is not None:
            self.last_loss = metrics.loss
        with self._lock, contextlib.suppress(OSError):
            self._unwritten += json.dumps(asdict(metrics)).encode() + b"\n"
            self._flush()

    def sync(self) -> None:
        """Bring all lines to the disk: a checkpoint must not know more steps than this file. Raises OSError."""
        with self._lock:
            self._flush()
        os.fsync(self._file.fileno())

    def _flush(self) -> None:
        while self._unwritten:
            written = self._file.write(self._unwritten)
            self._unwritten = self._unwritten[written:]

    def close(self) -> None:
        self._file.close()


class TensorBoardWriter:
    """TensorBoard scalars, as far as they can be had: a missing package or a full disk is one warning, no more."""

    def __init__(self, directory: Path, start_step: int) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            log.warning("tensorboard is not installed: no TensorBoard files, metrics.jsonl has everything")
            return
        self._guarded(lambda: setattr(self, "_writer", SummaryWriter(str(directory), purge_step=start_step + 1)))

    def write(self, metrics: StepMetrics) -> None:
        for name in ("loss", "lr", "grad_norm", "tokens_per_s", "skipped", "loss_scale"):
            if (value := getattr(metrics, name)) is not None:
                self.scalar(f"train/{name}", value, metrics.step)

    def scalar(self, name: str, value: float, step: int) -> None:
        if self._writer:
            self._guarded(lambda: self._writer.add_scalar(name, value, step))

    def close(self) -> None:
        if self._writer:
            self._guarded(self._writer.close)

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except OSError as error:
            log.warning("no more TensorBoard files: %s", error)
            self._writer = None


def read_metrics(path: Path) -> Iterator[dict[str, Any]]:
    """The records of a metrics file; a last line that was cut short is dropped."""
    yield from _records(_lines(path))


def cut(lines: Sequence[str], step: int) -> Sequence[str]:
    """The lines up to a step, which are in order: only what goes is looked into. Of 100,000 steps each is a start's
    business otherwise, and takes seconds."""
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
