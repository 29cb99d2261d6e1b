"""Runs without a scheduler have a detached supervisor on the submitting host: start it, find it, ask through files."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress

from fsdpctl.backends.base import View
from fsdpctl.contract import AbortReason, Env, StopReason
from fsdpctl.contract.codec import find_json, write_text
from fsdpctl.contract.control_files import read_control_file, write_request
from fsdpctl.contract.files import open_log, read_bytes
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.errors import FsdpctlError
from fsdpctl.node.os import processes
from fsdpctl.runs.evidence import living_agents, read_verdict

START_LIMIT_S = 30.0
CANCELLED_BY = "fsdpctl cancel"


def start_supervisor(run: RunPaths) -> None:
    """Start `fsdpctl.supervise.loop` in a session of its own and wait until it stands."""
    kill_supervisor(run)  # one that only waits for lost hosts, which the new one does as well
    descriptor = open_log(run.supervisor_log)
    try:
        subprocess.run(
            [sys.executable, "-m", "fsdpctl.supervise.loop", str(run.root)],
            env={**os.environ, Env.RUN_ID: run.root.name, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            timeout=START_LIMIT_S,
            check=True,
        )
    except subprocess.SubprocessError:
        raise FsdpctlError(f"the supervisor did not start; see {run.supervisor_log}") from None
    finally:
        os.close(descriptor)


def find_supervisor(run: RunPaths) -> ProcessIdentity | None:
    """The living supervisor of this host, if there is one."""
    identity = find_json(ProcessIdentity, run.supervisor)
    return identity if identity is not None and processes.is_alive(identity) else None


def kill_supervisor(run: RunPaths) -> None:
    """End it, and wait for that."""
    while (identity := find_supervisor(run)) is not None:
        with suppress(ProcessLookupError):
            os.kill(identity.pid, signal.SIGKILL)
        time.sleep(0.01)


def has_ended(run: RunPaths) -> bool:
    """Whether the newest attempt is judged, and none will follow by itself."""
    attempts = run.attempts()
    return bool(attempts) and _is_last(attempts[-1])


def _is_last(attempt: AttemptPaths) -> bool:
    verdict = read_verdict(attempt)
    return verdict is not None and not verdict.restart


def is_running(run: RunPaths) -> bool:
    """Whether the newest attempt goes on, or another one will follow it. A supervisor may outlive both for a while."""
    attempts = run.attempts()
    if not attempts or _is_last(attempts[-1]):
        return False
    return find_supervisor(run) is not None or bool(living_agents(attempts[-1]))


def observe(runs: Sequence[RunPaths]) -> Mapping[str, View]:
    """What a run's supervisor does, or that none of its agents is alive."""
    return {run.root.name: _view(run) for run in runs}


def _view(run: RunPaths) -> View:
    if not is_running(run):
        return View("none")
    last = find_json(ProcessIdentity, run.supervisor)
    if last is not None and last.host == socket.gethostname() and not processes.is_alive(last):
        return View("running", f"nobody watches over it any more; fsdpctl supervise {run.root.name} changes that")
    return View("running", read_waiting(run))


def read_waiting(run: RunPaths) -> str:
    """What the supervisor waits for; empty when it waits for nothing."""
    try:
        return read_bytes(run.waiting).decode(errors="replace").strip() if find_supervisor(run) is not None else ""
    except FileNotFoundError:
        return ""


def stop(run: RunPaths) -> bool:
    """Ask the newest attempt to save and leave; False if nothing runs."""
    if not is_running(run):
        return False
    write_request(run.attempts()[-1].stop, StopReason.USER, "fsdpctl stop")
    return True


def ask_to_end(run: RunPaths) -> None:
    """Leave the word in the newest attempt, which may be a newer one each time. It outranks a fault's."""
    if not (attempts := run.attempts()):
        return
    abort = attempts[-1].abort
    if write_request(abort, AbortReason.CANCEL, CANCELLED_BY):
        return
    if (note := read_control_file(abort)) is None or not note.is_cancel:
        write_text(abort, f"{AbortReason.CANCEL} {CANCELLED_BY}\n")
