"""A connection to one host: run a command there, open its files, test whether it answers.

A command is a list that is quoted once.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.transport.connect import Transport, connect
from fsdpctl.backends.ssh.transport.frame import STARTUP_FILES, Frame, describe_broken_shell
from fsdpctl.backends.ssh.transport.session import MAX_OUTPUT, FloodError, Session
from fsdpctl.backends.ssh.transport.ssh_config import Target

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel, SFTPClient

STARTUP_FILES_S = 5.0
"""For the list of start-up files: an sshd that starts its SFTP server through the broken shell may never answer."""


class Link:
    """A connection to one host, opened when first used and again when it broke. Threads wait for each other."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lock = threading.RLock()
        self._running: set[Frame] = set()  # commands
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
        """Run a command to its end. Raise HostError if the host, its login shell or the connection fails.

        What the login shell prints beside the command is left out.
        """
        frame = Frame()
        self._running.add(frame)
        try:
            return self._run(frame, argv, [stdin] if isinstance(stdin, bytes) else stdin, timeout_s)
        finally:
            self._running.discard(frame)

    def _run(self, frame: Frame, argv: Sequence[str], stdin: Iterable[bytes], timeout_s: float) -> NodeAnswer:
        session = None
        try:
            with self.open().create_session() as channel:
                session = Session(channel, timeout_s)
                code = session.run(frame.wrap(argv), stdin)
        except HostError:
            raise
        except Exception as error:  # paramiko raises SSHException, OSError and EOFError alike when a connection dies
            has_begun = session is not None and frame.has_begun(session.stdout)
            what = _lost(error, timeout_s)
            if session is not None and not has_begun and isinstance(error, TimeoutError | FloodError):
                what = self._broken_shell(what, session, is_cut=isinstance(error, FloodError))
            self.close()
            raise HostError(f"{self.target}: {what}", passing=not isinstance(error, FloodError)) from error
        if not frame.has_begun(session.stdout):
            raise HostError(f"{self.target}: {self._broken_shell(f'exit code {code}', session)}")
        return NodeAnswer(code, frame.cut_out(session.stdout), frame.cut_out(session.stderr))

    def _broken_shell(self, what: str, session: Session, *, is_cut: bool = False) -> str:
        """Return the error for a command that the login shell has not begun; `is_cut`: its output has no end."""
        output = session.stderr or session.stdout
        whole = output[: output.rfind("\n")] if is_cut and "\n" in output else output
        return describe_broken_shell(what, whole, self._find_startup_files())

    def _find_startup_files(self) -> list[str]:
        """Return the start-up files that the user has there; none where sshd has no SFTP that works without a shell."""
        try:
            with self.open_files(STARTUP_FILES_S) as files:
                return [name for name in STARTUP_FILES if _exists(files, name)]
        except Exception:
            return []

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
            raise HostError(f"{self.target}: no SFTP session: {_lost(error, timeout_s)}", passing=True) from error

    def is_answering(self, timeout_s: float, busy_s: float = 0.0) -> bool:
        """Return whether sshd answers on this connection, which is closed if not; no process is started for it.

        While a command runs, the answer may take `busy_s`: what is sent delays it, and closing would end the command.
        """
        try:
            open_session = self.open().transport.open_session
        except Exception:
            return False
        from paramiko import ChannelException  # not before: two threads that begin to import it break its import

        answered = threading.Event()
        try:
            # In a thread of its own: a full socket that takes no more blocks the request, too, beyond any time limit.
            threading.Thread(target=self._close_late, args=(answered, timeout_s, busy_s), daemon=True).start()
            open_session(timeout=math.inf).close()
        except ChannelException:
            return True  # as many sessions are open as sshd allows
        except Exception:
            return False
        finally:
            answered.set()
        return True

    def _close_late(self, answered: threading.Event, timeout_s: float, busy_s: float) -> None:
        """Close the connection unless an answer comes in time. One that came later would leave a session open there."""
        if not answered.wait(timeout_s) and not (self._running and answered.wait(busy_s - timeout_s)):
            self.close()

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


def _exists(files: SFTPClient, path: str) -> bool:
    try:
        files.stat(path)
    except FileNotFoundError:
        return False
    return True


def _lost(error: Exception, timeout_s: float) -> str:
    if isinstance(error, TimeoutError):
        return f"no answer within {timeout_s:.0f} s"
    if isinstance(error, FloodError):
        return f"more than {MAX_OUTPUT >> 20} MiB of output"
    return f"the connection broke: {str(error) or type(error).__name__}"
