"""Serve the socket of the fork server: fork a child for each request, and report how the child ended.

A child lives no longer than the connection that asked for it, and no longer than this process; ranks live no longer
than torchrun. The process ends some time after the last connection: the next attempt may begin by then.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from fsdpctl.contract import RANK_PROGRAM
from fsdpctl.node.os import processes
from fsdpctl.node.warm.messages import Request, is_own, receive_request, send_value

LINGER_S = 10.0
"""How long a process without a connection waits for the next attempt of a run."""
LOOK_S = 2.0
"""How often it looks meanwhile whether it is still wanted."""
_REQUEST_S = 5.0
"""What a client gets to send a whole request."""


class Server:
    """Forks on request. Use it in a process with one thread."""

    def __init__(
        self, listener: socket.socket, linger_s: float = LINGER_S, is_wanted: Callable[[], bool] = lambda: True
    ) -> None:
        self._listener, self._linger_s, self._is_wanted = listener, linger_s, is_wanted
        self._used = time.monotonic()
        self._children: dict[int, socket.socket] = {}
        self._torchrun = 0
        self._clients: set[socket.socket] = set()
        self._selector = selectors.DefaultSelector()
        self._woken, self._wake = socket.socketpair()
        self._woken.setblocking(False)
        self._wake.setblocking(False)

    def serve(self) -> tuple[Request, list[int]]:
        """Serve; return only in a forked child, with the request and the streams that the child is for.

        Raise SystemExit when there was no connection for too long, or while the process is not wanted any more.
        """
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)  # a byte to wake up needs a handler
        signal.set_wakeup_fd(self._wake.fileno(), warn_on_full_buffer=False)
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        while True:
            if self._clients:
                self._used = time.monotonic()
            ready = self._selector.select(None if self._clients else min(LOOK_S, self._linger_s))
            if not ready and (time.monotonic() - self._used >= self._linger_s or not self._is_wanted()):
                sys.exit()
            for key, _events in ready:
                if key.fileobj is self._listener:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._reap()
                elif key.fileobj in self._clients and (request := self._answer(key.fileobj)) is not None:
                    return request

    def _accept(self) -> None:
        client, _address = self._listener.accept()
        if not is_own(client):
            client.close()
            return
        client.settimeout(_REQUEST_S)
        self._clients.add(client)
        self._selector.register(client, selectors.EVENT_READ)

    def _answer(self, client: socket.socket) -> tuple[Request, list[int]] | None:
        """Fork the child that a client asks for; return its request in the child."""
        try:
            found = receive_request(client)
        except (OSError, EOFError, ValueError, TypeError):
            found = None
        if found is None:
            self._drop(client)
            return None
        request, streams = found
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._leave()
            processes.die_with_parent(lambda found: found == parent)
            os.setsid()  # as torchrun does for each worker
            return request, streams
        for stream in streams:
            os.close(stream)
        self._children[pid] = client
        if request.module != RANK_PROGRAM:
            self._torchrun = pid
        with suppress(OSError):
            send_value(client, pid)
        return None

    def _drop(self, client: socket.socket) -> None:
        """Forget a client that has gone, and end its child."""
        self._selector.unregister(client)
        self._clients.discard(client)
        client.close()
        for pid, asked in self._children.items():
            if asked is client:
                _kill_group(pid)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            while self._woken.recv(4096):
                pass
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = ended
                client = self._children.pop(pid)
                if pid == self._torchrun:
                    for rank in self._children:
                        _kill_group(rank)
                with suppress(OSError):
                    send_value(client, status)

    def _leave(self) -> None:
        """Give back, in a child, all that is the parent's."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self._selector.close()
        for one in (self._listener, self._woken, self._wake, *self._clients):
            one.close()


def _kill_group(pid: int) -> None:
    """Kill a child with its process group, which it does not lead yet in its first moment."""
    for kill in (os.killpg, os.kill):
        with suppress(ProcessLookupError, PermissionError):
            kill(pid, signal.SIGKILL)
