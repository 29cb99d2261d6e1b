"""One SSH connection, made safe. The only place that knows fabric and paramiko.

Bare fabric accepts any host key, runs environment values through the remote shell, reads ssh_config wrong and waits
15 s for a silent port. Here the route comes from `ssh -G`, the key must be known before anything is said, every wait
has a limit, nothing prompts, no agent is forwarded, and a command is a list that is quoted once.
"""

from __future__ import annotations

import logging
import os
import shlex
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fsdpctl.launchers.fanout import HostError
from fsdpctl.launchers.ssh.config import NO_PROMPT, Route, Target, find_route
from fsdpctl.launchers.ssh.keys import KnownKey, read_known, refusal

if TYPE_CHECKING:
    from fabric import Connection
    from paramiko import Channel, SFTPClient

KEEPALIVE_S = 5
MAX_OUTPUT = 4 * 2**20
"""Our own commands answer in a line or two; a host that floods us is cut off."""

NO_CODE = -1
"""paramiko's word for a command that was killed, or cut off together with its connection."""

_RSA = ("rsa-sha2-512", "rsa-sha2-256")


@dataclass(frozen=True)
class Answer:
    """What a remote command said and how it ended."""

    code: int
    stdout: str
    stderr: str


class Link:
    """A connection to one host, opened when first used and again when it broke. Threads wait for each other."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._lock = threading.RLock()
        self._connection: Connection | None = None
        self._proxy: subprocess.Popen[bytes] | None = None

    def open(self) -> Connection:
        """Connect unless connected. Raises HostError that says which of the many things it was."""
        with self._lock:
            if self._connection is not None and self._connection.is_connected:
                return self._connection
            self.close()
            route = find_route(self.target)
            try:
                self._connection = self._connect(route)
            except HostError:
                self.close()
                raise
            return self._connection

    def run(self, argv: Sequence[str], stdin: bytes | Iterable[bytes] = b"", timeout_s: float = 30) -> Answer:
        """Run a command to its end. Raises HostError when the host or the connection fails, not the command."""
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
                return Answer(code, stdout, stderr)
        except HostError:
            raise
        except Exception as error:  # paramiko raises SSHException, OSError and EOFError alike when a connection dies
            self.close()
            raise HostError(f"{self.target}: {_lost(error, timeout_s)}", passing=True) from error

    def open_files(self, timeout_s: float) -> SFTPClient:
        """A session for the host's files, for one thread; each of its answers must come within `timeout_s`.

        Only over a connection that stands: to open one takes long for a dead host, and others wait for that.
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
        """Whether sshd answers on this connection, at once and without starting anything."""
        try:
            self.open().transport.open_session(timeout=timeout_s).close()
        except Exception:
            self.close()
            return False
        return True

    def close(self) -> None:
        if self._connection is not None:
            with suppress(Exception):
                self._connection.close()
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait()
        self._connection = self._proxy = None

    def _connect(self, route: Route) -> Connection:
        import fabric
        import paramiko

        logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what it logs, it also raises
        known = read_known(route.known_hosts, route.key_name)
        wire, errors = self._open_wire(route)
        limit = self.target.connect_timeout_s
        connection = fabric.Connection(
            host=route.host,
            port=route.port,
            user=route.user,
            # Neither ssh_config nor the user's fabric.yaml may add to what `ssh -G` said.
            config=fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig()),
            forward_agent=False,
            connect_timeout=limit,
            connect_kwargs={
                "sock": wire,
                "key_filename": [str(path) for path in route.identities if path.is_file()],
                "allow_agent": route.use_agent,
                "look_for_keys": False,
                "banner_timeout": limit,
                "auth_timeout": limit,
                "channel_timeout": limit,
                "transport_factory": lambda *args, **kwargs: _prefer(paramiko.Transport(*args, **kwargs), known),
            },
        )
        verifier = _Verifier(route, known)
        connection.client.set_missing_host_key_policy(verifier)
        started = time.monotonic()
        try:
            connection.open()
        except Exception as error:
            connection.client.close()
            wire.close()
            said = errors() or verifier.refusal
            raise _explain(error, self.target, route, said, time.monotonic() - started) from error
        connection.transport.set_keepalive(KEEPALIVE_S)
        return connection

    def _open_wire(self, route: Route) -> tuple[socket.socket, Callable[[], str]]:
        """The bytes' way to the host, and what a proxy command says on its standard error."""
        if not route.proxy:
            try:
                wire = socket.create_connection((route.host, route.port), timeout=self.target.connect_timeout_s)
            except TimeoutError:
                raise HostError(
                    f"{self.target}: no answer within {self.target.connect_timeout_s} s", passing=True
                ) from None
            except OSError as error:
                raise HostError(f"{self.target}: {error.strerror or error}", passing=True) from None
            return wire, str
        ours, theirs = socket.socketpair()
        errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the proxy
        self._proxy = subprocess.Popen(
            route.proxy,
            env={**os.environ, **NO_PROMPT},
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=errors,
            start_new_session=True,
        )
        theirs.close()

        def said() -> str:
            errors.seek(0)
            return errors.read().decode(errors="replace").strip()

        return ours, said


def _sftp_client(session: Channel) -> SFTPClient:
    from paramiko import SFTPClient

    return SFTPClient(session)


def _prefer(transport: Any, known: list[KnownKey]) -> Any:
    """Ask for the kinds of host key that we know first, or a host with several keys would look unknown."""
    options = transport.get_security_options()
    wanted = [kind for key in known for kind in (_RSA if key.kind == "ssh-rsa" else (key.kind,))]
    order = [kind for kind in wanted if kind in options.key_types]
    options.key_types = list(dict.fromkeys([*order, *options.key_types]))
    return transport


class _Verifier:
    """paramiko's policy for missing keys. It is given no keys, so it asks for each host, before authentication."""

    def __init__(self, route: Route, known: list[KnownKey]) -> None:
        self._route, self._known = route, known
        self.refusal = ""

    def missing_host_key(self, client: object, hostname: str, key: Any) -> None:
        from paramiko import SSHException

        route = self._route
        reason = refusal(route.key_name, key.get_name(), key.asbytes(), self._known, route.known_hosts)
        if reason is not None:
            self.refusal = reason
            raise SSHException(reason)


def _explain(error: Exception, target: Target, route: Route, said: str, took_s: float) -> HostError:
    from paramiko import AuthenticationException, SSHException

    if said:
        return HostError(f"{target}: {said}")
    if isinstance(error, AuthenticationException) or "authentication" in str(error).lower():
        keys = ", ".join(str(path) for path in route.identities if path.is_file()) or "no key file"
        agent = " and the agent's keys" if route.use_agent else ""
        return HostError(f"{target}: refuses user {route.user}; tried {keys}{agent}")
    if isinstance(error, TimeoutError) or took_s >= target.connect_timeout_s:
        return HostError(
            f"{target}: accepts the connection and says nothing for {target.connect_timeout_s} s", passing=True
        )
    dropped = isinstance(error, EOFError | ConnectionError) or "banner" in str(error) or not str(error)
    detail = str(error) or type(error).__name__
    if dropped:
        return HostError(f"{target}: sshd closes the connection at once ({detail})", dropped=True)
    return HostError(f"{target}: {detail}", passing=isinstance(error, OSError) and not isinstance(error, SSHException))


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
