"""torchrun as a child of the fork server, which reports its pid and how it ends."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import time
from typing import Protocol

from fsdpctl.node.warm.messages import receive_value


class Torchrun(Protocol):
    """What the agent needs of torchrun: a `subprocess.Popen` has it."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class WarmTorchrun:
    """Reads from the connection over which torchrun was requested: first its pid, at last its wait status."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._code: int | None = None
        self.pid = 0  # until it has begun

    def poll(self) -> int | None:
        """Return the exit code as `subprocess.Popen` does, or None."""
        self._look(0)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code. Raise subprocess.TimeoutExpired."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while self._code is None:
            left = None if deadline is None else max(deadline - time.monotonic(), 0)
            if not self._look(left):
                raise subprocess.TimeoutExpired("torchrun", timeout or 0)
        return self._code

    def _look(self, timeout: float | None) -> bool:
        """Take in what has come; return False if that is nothing."""
        if self._code is not None or not select.select([self._connection], [], [], timeout)[0]:
            return False
        try:
            value = receive_value(self._connection)
        except (EOFError, OSError):  # the fork server has ended, and its children with it
            self._code = -signal.SIGKILL
        else:
            if self.pid:
                self._code = os.waitstatus_to_exitcode(value)
            else:
                self.pid = value
        if self._code is not None:
            self._connection.close()
        return True
