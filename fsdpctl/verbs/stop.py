"""stop: save and leave. cancel: end now, and prove that nothing is left."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

from fsdpctl.contract import AbortWord, StopWord
from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.notes import leave_note
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.errors import FsdpctlError
from fsdpctl.node import processes
from fsdpctl.runs.status import is_running, living_agents

CANCEL_WAIT_S = 8.0
"""How long agents get to end their ranks before we do it: TERM, five seconds, KILL, and a margin."""


def request_stop(run: RunPaths) -> bool:
    """Ask the newest attempt to save and leave; False if nothing runs."""
    if not is_running(run):
        return False
    leave_note(run.attempts()[-1].stop, StopWord.USER, "fsdpctl stop")
    return True


def cancel(run: RunPaths) -> bool:
    """End the run now; False if nothing was running. Raises FsdpctlError naming what would not die."""
    tag = processes.Tag(run.root.name)
    if not is_running(run) and not processes.find(tag):
        return False
    _wait_until(lambda: _ask_to_end(run), CANCEL_WAIT_S)
    _kill_supervisor(run)
    if left := processes.sweep(tag):
        raise FsdpctlError(f"still alive after KILL: {', '.join(map(str, left))}", hint="see ps; another user's?")
    return True


def _ask_to_end(run: RunPaths) -> bool:
    """Leave the note in the newest attempt, which may be a newer one each time; True once nothing runs."""
    if attempts := run.attempts():
        leave_note(attempts[-1].abort, AbortWord.CANCEL, "fsdpctl cancel")
        if living_agents(attempts[-1]):
            return False
    return not is_running(run)


def _kill_supervisor(run: RunPaths) -> None:
    try:
        identity = read_json(ProcessIdentity, run.supervisor)
    except (FileNotFoundError, CodecError):
        return
    if processes.is_alive(identity):
        os.kill(identity.pid, signal.SIGKILL)


def _wait_until(condition: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
