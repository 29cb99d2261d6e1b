"""Runs without a scheduler have a detached supervisor on the submitting host: start it, find it, end it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from fsdpctl.contract import Env
from fsdpctl.contract.codec import CodecError, read_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.errors import FsdpctlError
from fsdpctl.node import processes

START_LIMIT_S = 30.0


def start_supervisor(run: RunPaths) -> None:
    """Start `fsdpctl.supervise` in a session of its own and wait until it stands."""
    run.supervisor.unlink(missing_ok=True)
    descriptor = os.open(run.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "fsdpctl.supervise", str(run.root)],
            env={**os.environ, Env.RUN_ID: run.root.name, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    deadline = time.monotonic() + START_LIMIT_S
    while not run.supervisor.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise FsdpctlError(f"the supervisor did not start; see {run.supervisor_log}")
        time.sleep(0.01)


def find_supervisor(run: RunPaths) -> ProcessIdentity | None:
    """The living supervisor of this host, if there is one."""
    try:
        identity = read_json(ProcessIdentity, run.supervisor)
    except (FileNotFoundError, CodecError):
        return None
    return identity if processes.is_alive(identity) else None


def kill_supervisor(run: RunPaths) -> None:
    if (identity := find_supervisor(run)) is not None:
        os.kill(identity.pid, signal.SIGKILL)
