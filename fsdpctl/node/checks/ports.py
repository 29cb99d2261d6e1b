"""Open ports on the head and connect to them from all nodes: only that proves that no firewall is in between."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

START_S = 8.0
"""Seconds that the head may open its ports later than this node connects."""
CONNECT_S = 3.0
SERVE_S = START_S + 2 * CONNECT_S
_BYE = b"bye"


class Server:
    """Opens ports on all addresses, as the rendezvous does, and sends `token` to every client."""

    def __init__(self, ports: Sequence[int], token: str, num_clients: int) -> None:
        self._token, self._num_clients = token.encode(), num_clients
        self._sockets: list[socket.socket] = []
        for port in ports:
            with contextlib.suppress(OSError):  # taken by now; it is not listed in `opened` then
                self._sockets.append(socket.create_server(("", port), backlog=1024))
        self.opened = tuple(listener.getsockname()[1] for listener in self._sockets)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def wait(self) -> None:
        """Wait until every client has reported that it is done, or SERVE_S have passed."""
        self._thread.join()

    def _answer(self) -> None:
        deadline, byes = time.monotonic() + SERVE_S, 0
        with selectors.DefaultSelector() as selector:
            for listener in self._sockets:
                selector.register(listener, selectors.EVENT_READ, listener)
            while byes < self._num_clients and time.monotonic() < deadline:
                byes += sum(self._serve(key.data) for key, _ in selector.select(timeout=0.2))
        for listener in self._sockets:
            listener.close()

    def _serve(self, listener: socket.socket) -> bool:
        with contextlib.suppress(OSError):
            client, _ = listener.accept()
            with client:
                client.settimeout(1)
                client.sendall(self._token)
                return client.recv(len(_BYE)) == _BYE
        return False


def reach_ports(address: str, ports: Sequence[int], token: str, source: str) -> dict[int, str]:
    """Connect to every port, from the address `source` if given; return the failed ports with the reason."""
    deadline = time.monotonic() + START_S
    with ThreadPoolExecutor(max_workers=len(ports)) as pool:
        results = list(pool.map(lambda port: _reach(address, port, token, source, deadline), ports))
    failed = {port: why for port, why in zip(ports, results, strict=True) if why is not None}
    if reached := [port for port in ports if port not in failed]:
        with contextlib.suppress(OSError), _connect(address, reached[0], source) as connection:
            connection.recv(len(token))
            connection.sendall(_BYE)
    return failed


def _reach(address: str, port: int, token: str, source: str, deadline: float) -> str | None:
    while True:
        try:
            with _connect(address, port, source) as connection:
                return None if connection.recv(1024) == token.encode() else "another program answers"
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                return "refused"
        except TimeoutError:
            return "no answer"
        except OSError as error:
            return error.strerror or str(error)
        time.sleep(0.05)


def _connect(address: str, port: int, source: str) -> socket.socket:
    return socket.create_connection((address, port), CONNECT_S, source_address=(source, 0) if source else None)
