"""Write the steps of one source to metrics.jsonl, each once and in order.

The script itself comes first: as soon as anything else writes the file in this attempt, whether through
`fsdpctl.report` or by itself, nothing is added here any more. Else the highest source that has reported a step counts.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.files import open_log
from fsdpctl.contract.metrics_lines import metrics_line, remove_repeated
from fsdpctl.node.progress.step_report import Source, StepReport


class MetricsWriter:
    """The lines of one attempt. Errors of the disk lose no line: it is written with the next one."""

    def __init__(self, path: Path, attempt: int) -> None:
        self._path, self._attempt = path, attempt
        self._size = _size(path)
        self._file: int | None = None
        self._unwritten = b""
        self._source = Source.TENSORBOARD
        self._is_replaced = False
        self.step: int | None = None  # the newest
        self.refused_step: int | None = None  # one that came after a later one, of the source that counts

    def add(self, source: Source, report: StepReport) -> None:
        """Write a step, unless another source counts, or it is not after the last one."""
        if not self.accepts(source):
            return
        self._source = source
        if self.step is not None and report.step <= self.step:
            if report.step < self.step and source is not Source.TENSORBOARD:  # whose files come one after the other
                self.refused_step = report.step
            return
        self.step = report.step
        self._unwritten += metrics_line(report.step, report.time, self._attempt, report.values, report.total)
        with suppress(OSError):
            self._flush(report.step)

    def accepts(self, source: Source) -> bool:
        """Return whether steps of a source count."""
        return source >= self._source and not self.has_other_writer()

    def has_other_writer(self) -> bool:
        """Return whether the script has written the file in this attempt."""
        self._is_replaced = self._is_replaced or _size(self._path) != self._size
        return self._is_replaced

    def _flush(self, first_step: int) -> None:
        if self._file is None:
            remove_repeated(self._path, first_step, self._attempt)
            self._size = _size(self._path)
            self._file = open_log(self._path)
        while self._unwritten:
            written = os.write(self._file, self._unwritten)
            self._unwritten = self._unwritten[written:]
            self._size += written


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
