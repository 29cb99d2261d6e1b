"""What rank 0 works at, and since when: a line at each change, from which `ledger/` accounts for a run's time.

Other than a rank's progress, which holds the newest state, this is the history of an attempt. Steps are one entry,
however many there are: their times are in metrics.jsonl.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from enum import StrEnum
from pathlib import Path

from fsdpctl.contract.files import open_log, read_bytes

LIMIT_BYTES = 8 * 2**20
"""A file grows no further: a hundred thousand saves."""


class Work(StrEnum):
    """What a rank works at."""

    START = "start"  # imports, process groups, data, model
    RESTORE = "restore"  # the state: of a checkpoint, or its first values
    COMPILE = "compile"
    STEP = "step"
    SAVE = "save"
    EVALUATE = "evaluate"
    SCRIPT = "script"  # a user's own script, which reports its steps only
    END = "end"


class WorkLog:
    """Writes one rank's history; without a path it writes nothing.

    Errors are ignored, since a full disk must stop no rank; what did not fit is written with the next line.
    """

    def __init__(self, path: Path | None) -> None:
        self._file: int | None = None
        self._size = 0
        self._unwritten = b""
        self._now: Work | None = None
        if path is not None:
            with suppress(OSError):
                self._file = open_log(path)

    def begin(self, work: Work) -> None:
        """Record that `work` begins now, unless it is what the rank works at already."""
        if work is not self._now:
            self._now = work
            self._write(work)

    def begin_compiling(self) -> None:
        """Record that the compiler begins, amid other work."""
        self._write(Work.COMPILE)

    def end_compiling(self) -> None:
        """Record that the other work continues."""
        if self._now is not None:
            self._write(self._now)

    def _write(self, work: Work) -> None:
        if self._file is None or self._size > LIMIT_BYTES:
            return
        line = json.dumps({"time": round(time.time(), 3), "work": work}).encode() + b"\n"
        self._size += len(line)
        self._unwritten += line
        with suppress(OSError):
            while self._unwritten:
                self._unwritten = self._unwritten[os.write(self._file, self._unwritten) :]


def read_work(path: Path) -> list[tuple[float, Work]]:
    """Return when each work began; lines that are damaged, or of a later version, are left out."""
    found: list[tuple[float, Work]] = []
    with suppress(OSError):
        for line in read_bytes(path).splitlines():
            with suppress(ValueError, RecursionError, KeyError, TypeError):
                record = json.loads(line)
                found.append((float(record["time"]), Work(record["work"])))
    return found
