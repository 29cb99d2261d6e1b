"""The process on the first node that reads the progress of a user's script, and what its ranks need to report to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress

from fsdpctl.contract.codec import write_text
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.trainer_server import LOOPBACK, trainer_server_env
from fsdpctl.node.os import processes
from fsdpctl.node.os.log import log

STALE_S = 10.0
"""Without a sign of life, after which the process is killed: a Trainer must not wait for its answers."""
LONGEST_LOOK_S = 2.0
"""What a time between two looks counts at most: if it was longer, this host was suspended, and the process with it."""
CLOSE_S = 5.0
FAREWELL = b"."


class ProgressWatch:
    """The newest step that was read. `look` never waits."""

    def __init__(self, attempt: AttemptPaths, clock: Callable[[], float] = time.monotonic) -> None:
        """Start the process. Nothing of it is needed for the ranks to run. Raise OSError."""
        self._token = attempt.node(0).trainer_token
        write_text(self._token, os.urandom(32).hex())
        # Once it is closed, a post fails at once if the process has ended.
        with _listen() or nullcontext() as listening:
            self._port = listening.getsockname()[1] if listening is not None else None
            self._process = _start(attempt, listening)
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._unread, self._clock = b"", clock
        self._last, self._stale_s = clock(), 0.0
        self._step: int | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    def rank_env(self, env: Mapping[str, str]) -> dict[str, str]:
        """Return what ranks with this environment need in addition."""
        return trainer_server_env(env, self._port, self._token) if self._port is not None else {}

    def look(self) -> int | None:
        """Return the newest step; None where none was found. Call it about once a second."""
        now = self._clock()
        passed_s, self._last = min(now - self._last, LONGEST_LOOK_S), now
        self._stale_s += passed_s
        with suppress(BlockingIOError):
            *lines, self._unread = (self._unread + os.read(self._pipe, 2**16)).split(b"\n")
            if lines:
                self._stale_s, self._step = 0.0, int(lines[-1]) if lines[-1] else None
        if self._stale_s > STALE_S >= self._stale_s - passed_s:
            self._process.kill()
            log("progress: its process has ended, or did not answer and was killed")
        return self._step

    def close(self) -> None:
        """Let the process read what ranks wrote last, and end it."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            os.write(self._process.stdin.fileno(), FAREWELL)  # the end of file may not come: a new guard has it open
        try:
            self._process.wait(CLOSE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
        with suppress(OSError):
            self._token.unlink(missing_ok=True)


def _start(attempt: AttemptPaths, listening: socket.socket | None) -> subprocess.Popen[bytes]:
    agent = os.getpid()
    argv = [sys.executable, "-m", "fsdpctl.node.progress"]
    argv += [f"--run-dir={attempt.run_dir}", f"--attempt={attempt.number}"]
    passed = [listening.fileno()] if listening is not None else []
    return subprocess.Popen(
        [*argv, *(f"--listen={descriptor}" for descriptor in passed)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=passed,
        preexec_fn=lambda: processes.die_with_parent(lambda parent: parent == agent),
    )


def _listen() -> socket.socket | None:
    """Return a socket that listens on a free port of the loopback interface; None where there is none."""
    try:
        listening = socket.create_server((LOOPBACK, 0))
    except OSError as error:
        log(f"progress: a Trainer cannot report to this node: {error}")
        return None
    return listening
