"""Show one live line on a terminal while nodes are checked and started; elsewhere nothing."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fsdpctl.contract.paths import RunPaths

QUIET_S = 1.0
EVERY_S = 0.2


@contextmanager
def live_report() -> Iterator[Callable[[str], None]]:
    """Return a function that shows what is being done, from any thread; the line is erased at the end."""
    if not sys.stderr.isatty():
        yield lambda doing: None
        return
    from fsdpctl.cli.follow import LiveLine

    line, lock = LiveLine(), Lock()

    def report(doing: str) -> None:
        with lock:
            line.show(doing)

    try:
        yield report
    finally:
        line.erase()


@contextmanager
def show_start(run: RunPaths) -> Iterator[None]:
    """Show the progress of the run's next attempt while the caller starts it."""
    if not sys.stderr.isatty():
        yield
        return
    started = Event()
    watcher = Thread(target=_watch, args=(run, len(run.attempts()), started), daemon=True)
    watcher.start()
    try:
        yield
    finally:
        started.set()
        watcher.join()


def _watch(run: RunPaths, after: int, started: Event) -> None:
    from fsdpctl.cli.follow import LiveLine
    from fsdpctl.contract.codec import CodecError
    from fsdpctl.verbs.start_progress import read_start

    line = LiveLine()
    pause_s = QUIET_S
    while not started.wait(pause_s):
        pause_s = EVERY_S
        with suppress(OSError, CodecError):  # a refused start may delete everything in the meantime
            line.show(read_start(run, after))
    line.erase()
