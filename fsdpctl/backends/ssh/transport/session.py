"""One command on one channel: what it is sent, what it prints, and its end, within a time and a size."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paramiko import Channel

MAX_OUTPUT = 4 * 2**20
"""fsdpctl's commands print a line or two."""
_DRAIN_EVERY_S = 0.05
"""Between two looks at one stream while the other is read: a full one would make the command wait."""
_NO_CODE = -1
"""paramiko's exit code for a command that was killed, or cut off with its connection."""


class FloodError(Exception):
    """The command printed more than MAX_OUTPUT."""


class Session:
    """Output so far, whatever comes after it."""

    def __init__(self, channel: Channel, timeout_s: float) -> None:
        self._channel, self._deadline = channel, time.monotonic() + timeout_s
        self._stdout, self._stderr = bytearray(), bytearray()

    @property
    def stdout(self) -> str:
        return self._stdout.decode("utf-8", errors="replace")

    @property
    def stderr(self) -> str:
        return self._stderr.decode("utf-8", errors="replace")

    def run(self, line: str, stdin: Iterable[bytes]) -> int:
        """Run a line of the login shell and return its exit code.

        Raise TimeoutError, FloodError, EOFError, or whatever paramiko raises; the command is killed then.
        """
        try:
            self._channel.settimeout(self._left_s())
            self._channel.exec_command(line)
            self._send(stdin)
            self._read()
            self._channel.settimeout(self._left_s())
            code: int = self._channel.recv_exit_status()
            if code == _NO_CODE:
                raise EOFError("no exit code came")
            return code
        except BaseException:
            self._kill()
            raise

    def _send(self, stdin: Iterable[bytes]) -> None:
        """Send all, unless the command ends before it has read that: why is in what it prints."""
        try:
            for block in stdin:
                self._channel.settimeout(self._left_s())
                self._channel.sendall(block)
            self._channel.shutdown_write()
        except TimeoutError:
            raise
        except OSError:  # of a channel that the host has closed; after a lost connection there is no exit code either
            return

    def _read(self) -> None:
        """Read both streams to their ends, whichever of them has more."""
        streams = [(self._channel.recv, self._stdout), (self._channel.recv_stderr, self._stderr)]
        while streams:
            for receive, into in tuple(streams):
                self._channel.settimeout(min(_DRAIN_EVERY_S, self._left_s()) if len(streams) > 1 else self._left_s())
                with suppress(TimeoutError):
                    if not (part := receive(65_536)):
                        streams.remove((receive, into))
                    into += part
                if len(into) > MAX_OUTPUT:
                    raise FloodError

    def _left_s(self) -> float:
        if (left := self._deadline - time.monotonic()) <= 0:
            raise TimeoutError
        return left

    def _kill(self) -> None:
        """Ask sshd to kill the command and what it started: closing a channel ends only what reads or writes it."""
        from paramiko.common import cMSG_CHANNEL_REQUEST
        from paramiko.message import Message

        request = Message()
        request.add_byte(cMSG_CHANNEL_REQUEST)
        request.add_int(self._channel.remote_chanid)
        request.add_string("signal")  # paramiko has no method for it
        request.add_boolean(False)
        request.add_string("KILL")
        with suppress(Exception):
            self._channel.transport._send_user_message(request)
