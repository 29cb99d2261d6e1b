"""Start a process that outlives what is done to a run: a scheduler's signals, and the sweep of all that has its tag."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.node.os import signals


def start_in_own_session(module: str, *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    """Start a module with this process's environment, for its secrets, but without the tag. Its input is a pipe."""
    return subprocess.Popen(
        [sys.executable, "-m", module, *words],
        cwd=cwd,
        env={**{name: value for name, value in os.environ.items() if name != Env.RUN_ID}, "PYTHONSAFEPATH": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A scheduler that requeues the job sends TERM to all of its processes, and KILL half a minute later.
        preexec_fn=signals.ignore,
    )
