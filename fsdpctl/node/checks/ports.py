"""The head's ports, really opened and really connected to: only that proves that no firewall stands between."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

START_S = 8.0
"""How much later than this node the head may open its ports."""
CONNECT_S = 3.0
SERVE_S = START_S + 2 * CONNECT_S
_BYE = b"bye"


class Server:
    """Opens ports on all addresses, as the rendezvous does, and says `word` to whoever connects."""

    def __init__(self, ports: Sequence[int], word: str, num_clients: int) -> None:
        self._word, self._num_clients = word.encode(), num_clients
        self._sockets: list[socket.socket] = []
        for port in ports:
            with contextlib.suppress(OSError):  # taken since; then nobody expects it to answer
                self._sockets.append(socket.create_server(("", port), backlog=1024))
        self.opened = tuple(listener.getsockname()[1] for listener in self._sockets)
        self._thread = threading.Thread(target=self._answer)
        self._thread.start()

    def wait(self) -> None:
        """Until every client has said that it is done, or has had the time to."""
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
                client.sendall(self._word)
                return client.recv(len(_BYE)) == _BYE
        return False


def reach_ports(address: str, ports: Sequence[int], word: str, source: str) -> dict[int, str]:
    """Connect to every port, from `source` where it is given; return those that failed, and how."""
    deadline = time.monotonic() + START_S
    with ThreadPoolExecutor(max_workers=len(ports)) as pool:
        results = list(pool.map(lambda port: _reach(address, port, word, source, deadline), ports))
    failed = {port: why for port, why in zip(ports, results, strict=True) if why is not None}
    if reached := [port for port in ports if port not in failed]:
        with contextlib.suppress(OSError), _connect(address, reached[0], source) as connection:
            connection.recv(len(word))
            connection.sendall(_BYE)
    return failed


def _reach(address: str, port: int, word: str, source: str, deadline: float) -> str | None:
    while True:
        try:
            with _connect(address, port, source) as connection:
                return None if connection.recv(1024) == word.encode() else "another program answers"
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
