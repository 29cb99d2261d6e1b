"""A connection to one host: run a command there, open its files, test whether it answers.

A command is a list that is quoted once.
"""

from __future__ import annotations

import shlex
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.transport.connect import Transport, connect
from fsdpctl.backends.ssh.transport.ssh_config import Target

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel, SFTPClient

MAX_OUTPUT = 4 * 2**20
"""fsdpctl's commands print a line or two; longer output is cut off."""

NO_CODE = -1
"""paramiko's exit code for a command that was killed, or cut off with its connection."""


class Link:
    """A connection to one host, opened when first used and again when it broke. Threads wait for each other."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._transport: Transport | None = None

    def open(self) -> Connection:
        """Connect unless connected. Raise HostError with the cause."""
        with self._lock:
            if self._connection is not None and self._connection.is_connected:
                return self._connection
            self.close()
            self._connection, self._transport = connect(self.target)
            return self._connection

    def run(self, argv: Sequence[str], stdin: bytes | Iterable[bytes] = b"", timeout_s: float = 30) -> NodeAnswer:
        """Run a command to its end. Raise HostError if the host or the connection fails, not the command."""
        deadline = time.monotonic() + timeout_s
        try:
            channel = self.open().create_session()
            with channel:
                channel.settimeout(timeout_s)
                channel.exec_command(shlex.join(argv))
                for block in [stdin] if isinstance(stdin, bytes) else stdin:
                    channel.sendall(block)
                channel.shutdown_write()
                stdout = _read(channel, channel.recv, deadline)
                stderr = _read(channel, channel.recv_stderr, deadline)
                channel.settimeout(max(0.1, deadline - time.monotonic()))
                code = channel.recv_exit_status()
                if code == NO_CODE:
                    raise EOFError("no exit code came")
                return NodeAnswer(code, stdout, stderr)
        except HostError:
            raise
        except Exception as error:  # paramiko raises SSHException, OSError and EOFError alike when a connection dies
            self.close()
            raise HostError(f"{self.target}: {_lost(error, timeout_s)}", passing=True) from error

    def open_files(self, timeout_s: float) -> SFTPClient:
        """Open an SFTP session for one thread; each of its answers must come within `timeout_s`. Raise HostError.

        Only over an open connection: opening one takes long for a dead host, and other threads would wait for that.
        """
        connection = self._connection
        if connection is None or not connection.is_connected:
            raise HostError(f"{self.target}: not connected", passing=True)
        try:
            session = connection.transport.open_session(timeout=timeout_s)
            session.settimeout(timeout_s)
            session.invoke_subsystem("sftp")
            return _sftp_client(session)
        except Exception as error:
            raise HostError(f"{self.target}: {_lost(error, timeout_s)}", passing=True) from error

    def is_answering(self, timeout_s: float) -> bool:
        """Return whether sshd answers on this connection; no process is started for it."""
        try:
            self.open().transport.open_session(timeout=timeout_s).close()
        except Exception:
            self.close()
            return False
        return True

    def close(self) -> None:
        connection, transport = self._connection, self._transport  # another thread may close it at the same time
        self._connection = self._transport = None
        if connection is not None:
            with suppress(Exception):
                connection.close()
        if transport is not None:
            transport.close()


def _sftp_client(session: Channel) -> SFTPClient:
    from paramiko import SFTPClient

    return SFTPClient(session)


def _lost(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:.0f} s"
    return f"the connection broke: {str(error) or type(error).__name__}"


def _read(channel: Channel, receive: Callable[[int], bytes], deadline: float) -> str:
    parts: list[bytes] = []
    size = 0
    while size < MAX_OUTPUT:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        channel.settimeout(left)
        part = receive(65_536)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts).decode("utf-8", errors="replace")
