"""Connect to one host, with the safety that fabric does not have.

Bare fabric accepts any host key, runs environment values through the remote shell, reads ssh_config wrong and waits
15 s for a port without an answer. Here the route comes from `ssh -G`, the key must be known before the login, every
wait has a limit, nothing prompts, and no agent is forwarded.
"""

from __future__ import annotations

import errno
import logging
import os
import socket
import subprocess
import tempfile
import time
from typing import IO, TYPE_CHECKING, Any

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.transport.known_hosts import KnownKey, read_known, refusal
from fsdpctl.backends.ssh.transport.ssh_config import NO_PROMPT, Route, Target, find_route

if TYPE_CHECKING:
    from fabric import Connection

KEEPALIVE_S = 5

_RSA = ("rsa-sha2-512", "rsa-sha2-256")


def connect(target: Target) -> tuple[Connection, Transport]:
    """Connect and log in. Raise HostError with the cause."""
    route = find_route(target)
    transport = _open_transport(target, route)
    try:
        return _log_in(target, route, transport), transport
    except BaseException:
        transport.close()
        raise


class Transport:
    """The byte stream to a host: a TCP connection, or the standard input and output of a proxy command."""

    def __init__(
        self, own: socket.socket, proxy: subprocess.Popen[bytes] | None = None, errors: IO[bytes] | None = None
    ) -> None:
        self.socket = own
        self._proxy, self._errors = proxy, errors

    def proxy_error(self) -> str:
        """Return what the proxy command printed to its standard error."""
        if self._errors is None:
            return ""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    def close(self) -> None:
        self.socket.close()
        if self._proxy is not None:
            self._proxy.kill()
            self._proxy.wait()


def _open_transport(target: Target, route: Route) -> Transport:
    if route.proxy:
        return _start_proxy(route.proxy)
    limit_s = target.connect_timeout_s
    try:
        return Transport(socket.create_connection((route.host, route.port), timeout=limit_s))
    except TimeoutError:
        raise HostError(f"{target}: no answer within {limit_s} s", passing=True) from None
    except OSError as error:
        if error.errno == errno.EMFILE:  # nothing of this host
            raise
        raise HostError(f"{target}: {error.strerror or error}", passing=True) from None


def _start_proxy(command: tuple[str, ...]) -> Transport:
    own, others = socket.socketpair()
    errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the proxy
    proxy = subprocess.Popen(
        command,
        env={**os.environ, **NO_PROMPT},
        stdin=others.fileno(),
        stdout=others.fileno(),
        stderr=errors,
        start_new_session=True,
    )
    others.close()
    return Transport(own, proxy, errors)


def _log_in(target: Target, route: Route, transport: Transport) -> Connection:
    import fabric
    import paramiko

    logging.getLogger("paramiko").setLevel(logging.CRITICAL)  # what it logs, it also raises
    known = read_known(route.known_hosts, route.key_name)
    limit_s = target.connect_timeout_s
    connection = fabric.Connection(
        host=route.host,
        port=route.port,
        user=route.user,
        # Neither ssh_config nor the user's fabric.yaml may add to the output of `ssh -G`.
        config=fabric.Config(lazy=True, ssh_config=paramiko.SSHConfig()),
        forward_agent=False,
        connect_timeout=limit_s,
        connect_kwargs={
            "sock": transport.socket,
            "key_filename": [str(path) for path in route.identities if path.is_file()],
            "allow_agent": route.use_agent,
            "look_for_keys": False,
            "banner_timeout": limit_s,
            "auth_timeout": limit_s,
            "channel_timeout": limit_s,
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
        reason = transport.proxy_error() or verifier.refusal
        raise _explain(error, target, route, reason, time.monotonic() - started) from error
    connection.transport.set_keepalive(KEEPALIVE_S)
    return connection


def _prefer(transport: Any, known: list[KnownKey]) -> Any:
    """Prefer the kinds of host key in known_hosts, or a host with several keys would look unknown."""
    options = transport.get_security_options()
    wanted = [kind for key in known for kind in (_RSA if key.kind == "ssh-rsa" else (key.kind,))]
    order = [kind for kind in wanted if kind in options.key_types]
    options.key_types = list(dict.fromkeys([*order, *options.key_types]))
    return transport


class _Verifier:
    """paramiko's policy for missing keys. paramiko gets no keys: it calls this for each host before authentication."""

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


def _explain(error: Exception, target: Target, route: Route, reason: str, took_s: float) -> HostError:
    from paramiko import AuthenticationException, SSHException

    if reason:
        return HostError(f"{target}: {reason}")
    if isinstance(error, AuthenticationException) or "authentication" in str(error).lower():
        keys = ", ".join(str(path) for path in route.identities if path.is_file()) or "no key file"
        agent = " and the agent's keys" if route.use_agent else ""
        return HostError(f"{target}: refuses user {route.user}; tried {keys}{agent}")
    if isinstance(error, TimeoutError) or took_s >= target.connect_timeout_s:
        return HostError(
            f"{target}: accepts the connection and sends nothing for {target.connect_timeout_s} s", passing=True
        )
    dropped = isinstance(error, EOFError | ConnectionError) or "banner" in str(error) or not str(error)
    detail = str(error) or type(error).__name__
    if dropped:
        return HostError(f"{target}: sshd closes the connection at once ({detail})", dropped=True)
    return HostError(f"{target}: {detail}", passing=isinstance(error, OSError) and not isinstance(error, SSHException))
