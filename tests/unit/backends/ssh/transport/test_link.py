"""When a connection is closed that gives no answer: at once if nothing runs there, else only after long."""

from __future__ import annotations

import itertools
import socket
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import paramiko
import pytest

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.transport import link as link_module
from fsdpctl.backends.ssh.transport.connect import Transport
from fsdpctl.backends.ssh.transport.link import Link
from fsdpctl.backends.ssh.transport.ssh_config import Target

LONG_S = 60.0
KEY = paramiko.ECDSAKey.generate()


class Sshd(paramiko.ServerInterface):
    """Runs commands on this machine. While `works` is unset, it reads no more once a session is asked for."""

    def __init__(self) -> None:
        self.works, self.asked, self.began = threading.Event(), threading.Event(), threading.Event()
        self.works.set()
        self.sessions = 100  # that are allowed

    def check_auth_none(self, username: str) -> int:
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        self.asked.set()
        self.works.wait(LONG_S)
        self.sessions -= 1
        return paramiko.common.OPEN_SUCCEEDED if self.sessions >= 0 else paramiko.common.OPEN_FAILED_RESOURCE_SHORTAGE

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        threading.Thread(target=self._execute, args=(channel, command.decode()), daemon=True).start()
        return True

    def _execute(self, channel: paramiko.Channel, command: str) -> None:
        self.began.set()
        given = b"".join(iter(lambda: channel.recv(1 << 16), b""))
        done = subprocess.run(["sh", "-c", command], input=given, capture_output=True, check=False)
        with suppress(OSError):  # of a closed connection
            channel.sendall(done.stdout)
            channel.sendall_stderr(done.stderr)
            channel.send_exit_status(done.returncode)
            channel.close()


class Connection:
    """What Link needs of fabric's."""

    def __init__(self, transport: paramiko.Transport) -> None:
        self.transport = transport

    @property
    def is_connected(self) -> bool:
        return self.transport.active

    def create_session(self) -> paramiko.Channel:
        return self.transport.open_session()

    def close(self) -> None:
        self.transport.close()


@pytest.fixture
def sshd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    sshd, servers = Sshd(), []

    def connect(target: Target) -> tuple[Connection, Transport]:
        here, there = socket.socketpair()
        server, client = paramiko.Transport(there), paramiko.Transport(here)
        servers.append(server)
        server.add_server_key(KEY)
        server.start_server(server=sshd, event=threading.Event())
        client.start_client(timeout=LONG_S)
        client.auth_none("user")
        return Connection(client), Transport(here)

    monkeypatch.setattr(link_module, "connect", connect)
    yield sshd
    sshd.works.set()
    for server in servers:
        server.close()


@pytest.fixture
def link(sshd: Sshd) -> Iterator[Link]:
    link = Link(Target("a", "10.0.0.1"))
    yield link
    link.close()


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as pool:
        yield pool


def test_a_command_survives_a_late_answer(sshd: Sshd, link: Link, pool: ThreadPoolExecutor) -> None:
    probed = threading.Event()

    def stdin() -> Iterator[bytes]:
        probed.wait(LONG_S)
        yield b"all"

    answer = pool.submit(link.run, ["cat"], stdin(), LONG_S)
    assert sshd.began.wait(LONG_S)
    sshd.works.clear()
    threading.Timer(0.5, sshd.works.set).start()
    assert link.is_answering(0.1, LONG_S)
    probed.set()
    assert answer.result(LONG_S).stdout == "all"


def test_a_command_that_begins_while_an_answer_is_late_survives_too(
    sshd: Sshd, link: Link, pool: ThreadPoolExecutor
) -> None:
    link.open()
    sshd.works.clear()
    probe = pool.submit(link.is_answering, 1.0, LONG_S)
    assert sshd.asked.wait(LONG_S)
    answer = pool.submit(link.run, ["echo", "all"], b"", LONG_S)
    threading.Timer(2.0, sshd.works.set).start()
    assert probe.result(LONG_S)
    assert answer.result(LONG_S).stdout == "all\n"


def test_a_connection_without_an_answer_is_closed_at_once_if_nothing_runs(sshd: Sshd, link: Link) -> None:
    old = link.open()
    sshd.works.clear()
    assert not link.is_answering(0.1, LONG_S)
    assert not old.is_connected
    sshd.works.set()
    assert link.is_answering(LONG_S) and link.open() is not old


def test_a_dead_connection_is_closed_while_it_takes_no_more_of_what_is_sent(
    sshd: Sshd, link: Link, pool: ThreadPoolExecutor
) -> None:
    answer = pool.submit(link.run, ["cat"], itertools.repeat(bytes(1 << 16)), LONG_S)
    assert sshd.began.wait(LONG_S)
    sshd.works.clear()
    assert not link.is_answering(0.1, 1.0)
    with pytest.raises(HostError, match="the connection broke") as caught:
        answer.result(LONG_S / 2)
    assert caught.value.passing


def test_a_refused_session_is_an_answer(sshd: Sshd, link: Link) -> None:
    connection, sshd.sessions = link.open(), 1
    assert link.is_answering(LONG_S)
    assert link.is_answering(LONG_S) and connection.is_connected


def test_an_sshd_without_sftp_is_named_as_such(link: Link) -> None:
    link.open()
    with pytest.raises(HostError, match=r"^a \(10.0.0.1\): no SFTP session: "):
        link.open_files(LONG_S)
