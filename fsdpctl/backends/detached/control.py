"""Start and find the detached supervisor, and send it requests through files."""

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
from fsdpctl.contract import Env, Phase
from fsdpctl.contract.control_files import request_cancel, request_stop
from fsdpctl.contract.files import open_log
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.errors import FsdpctlError
from fsdpctl.runs.evidence import RunFacts, read_plan

START_LIMIT_S = 30.0


def start_supervisor(run: RunPaths) -> None:
    """Start `fsdpctl.backends.detached` in a session of its own and wait until it is up."""
    kill_supervisor(run)  # an old one may still wait for lost hosts; the new one does that as well
    descriptor = open_log(run.supervisor_log)
    try:
        subprocess.run(
            [sys.executable, "-m", "fsdpctl.backends.detached", str(run.root)],
            env={**os.environ, Env.RUN_ID: run.root.name, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            timeout=START_LIMIT_S,
            check=True,
        )
    except subprocess.SubprocessError:
        if (newest := RunFacts(run).newest) is not None and newest.is_cancelled:
            raise FsdpctlError(f"{run.root.name} was cancelled while it started") from None
        raise FsdpctlError(f"the supervisor did not start; see {run.supervisor_log}") from None
    finally:
        os.close(descriptor)


def find_supervisor(run: RunPaths) -> ProcessIdentity | None:
    """Return the living supervisor of this host, if there is one."""
    facts = RunFacts(run)
    return facts.supervisor if facts.has_living_supervisor else None


def kill_supervisor(run: RunPaths) -> None:
    """Kill the supervisor, and wait until it is gone."""
    while (identity := find_supervisor(run)) is not None:
        with suppress(ProcessLookupError):
            os.kill(identity.pid, signal.SIGKILL)
        time.sleep(0.01)


def observe(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    """Return what each run's supervisor does, or that none of its agents is alive."""
    return {run.run_id: _view(run) for run in runs}


def _view(run: RunFacts) -> View:
    if run.has_ended:  # most runs of a long list: their supervisors are not looked for
        return View("none")
    last = run.supervisor
    is_killed = last is not None and last.host == socket.gethostname() and not run.has_living_supervisor
    remedy = f"fsdpctl supervise {run.run_id} starts one"
    if not run.is_running:
        is_due = is_killed and run.newest is not None and not run.newest.is_last and run.newest.verdict is not None
        reason, phase = (
            (f"no supervisor any more to restart it; {remedy}", Phase.UNSUPERVISED) if is_due else ("", None)
        )
        return View("none", reason, phase=phase)
    if is_killed:
        return View("running", f"no supervisor any more; {remedy}", phase=Phase.UNSUPERVISED)
    if run.waiting and _has_not_begun(run) and read_plan(run.paths).after is not None:
        return View("queued", run.waiting)
    return View("running", run.waiting, phase=Phase.WAITING if run.waiting else None)


def _has_not_begun(run: RunFacts) -> bool:
    return run.newest is not None and not run.newest.nodes


def stop(run: RunPaths) -> bool:
    """Ask the run to save and exit; return False if nothing runs."""
    if not RunFacts(run).is_running:
        return False
    ask_to_stop(run)
    return True


def ask_to_stop(run: RunPaths) -> None:
    """Request a stop of the newest attempt, which may change meanwhile."""
    asked = 0
    while (attempts := run.attempts()) and attempts[-1].number != asked:
        request_stop(attempts[-1].stop)
        asked = attempts[-1].number


def was_resumed(run: RunPaths, submissions: int) -> bool:
    """Return whether the run had only this many submissions before: a cancel of them must not end a newer one."""
    return len(RunFacts(run).record.submissions) > submissions


def ask_to_end(run: RunPaths) -> None:
    """Request a cancel of the newest attempt, which may change between calls."""
    if attempts := run.attempts():
        request_cancel(attempts[-1].abort)
