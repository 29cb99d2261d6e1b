"""A progress bar on stderr for work of more than a second: rich on a terminal, a line every few seconds elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from fsdpctl.cli.output import log, safe

if TYPE_CHECKING:
    from rich.progress import Progress

QUIET_S = 1.0
LINE_EVERY_S = 5.0


class Bar:
    """Call it with the phase, the bytes done, and the total."""

    def __init__(self) -> None:
        self._next = time.monotonic() + QUIET_S
        self._progress: Progress | None = None
        self._phase = ""

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the bar from the terminal, before other output."""
        if self._progress is not None:
            self._progress.stop()
            self._progress, self._phase = None, ""

    def __call__(self, phase: str, done: int, total: int) -> None:
        if self._progress is None and time.monotonic() < self._next:
            return
        if sys.stderr.isatty():
            self._draw(phase, done, total)
        else:
            self._next = time.monotonic() + LINE_EVERY_S
            log(f"{phase}: {done / max(total, 1):.0%} of {total / 1e6:,.1f} MB")

    def _draw(self, phase: str, done: int, total: int) -> None:
        if self._progress is None:
            self._progress = _make_progress()
            self._progress.start()
        if phase != self._phase:
            for task in self._progress.task_ids:
                self._progress.remove_task(task)
            self._progress.add_task(safe(phase), total=total, completed=done)
            self._phase = phase
        self._progress.update(self._progress.task_ids[-1], completed=done)


def _make_progress() -> Progress:
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
