"""Report what the supervisor waits for: one line in the run directory, and an event for each new one."""

from __future__ import annotations

from fsdpctl.contract.codec import write_text
from fsdpctl.contract.events import EventKind
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.runs.events import add_event


class Waiting:
    """The file `waiting` of one run; true while the supervisor waits for something."""

    def __init__(self, run: RunPaths) -> None:
        self._run = run
        self._reported: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._reported)

    def set(self, attempt: AttemptPaths, what: str) -> None:
        """Write what the supervisor waits for; add each event once, because a host may be tried for a day."""
        if what not in self._reported:
            self._reported.add(what)
            add_event(attempt, what, EventKind.WAITING)
        write_text(self._run.waiting, f"{what}\n")

    def clear(self) -> None:
        """Remove the file: the supervisor waits for nothing any more."""
        self._reported.clear()
        self._run.waiting.unlink(missing_ok=True)
