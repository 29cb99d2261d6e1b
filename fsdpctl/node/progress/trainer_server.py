"""A server on the loopback interface for the posts of a Trainer: each is answered at once, and read later.

The Trainer waits for the answer between two steps, so no disk and no other source may delay it.
"""

from __future__ import annotations

import hmac
import socket
import threading
import time
from collections import deque
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 64 * 2**10
MAX_WAITING = 100
"""Posts that have not been read yet; the oldest are dropped, for the newest has all that they had."""
READ_S = 2.0
"""What a client gets to send its post."""


class TrainerServer:
    """Serves a listening socket in threads of its own."""

    def __init__(self, listening: socket.socket, token: str) -> None:
        self._posts: deque[tuple[float, bytes]] = deque(maxlen=MAX_WAITING)
        self._server = _Server(listening, token, self._posts)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def take(self) -> list[tuple[float, bytes]]:
        """Return the posts since the last call: when each came, and its body."""
        return [self._posts.popleft() for _ in range(len(self._posts))]


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, listening: socket.socket, token: str, posts: deque[tuple[float, bytes]]) -> None:
        super().__init__(listening.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listening
        self.authorization, self.posts = f"Bearer {token}".encode(), posts


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = READ_S

    def do_POST(self) -> None:
        given = self.headers.get("Authorization", "").encode(errors="replace")
        length = self.headers.get("Content-Length", "")
        if not hmac.compare_digest(given, self.server.authorization):
            self._answer(HTTPStatus.UNAUTHORIZED)
        elif not length.isdecimal() or int(length) > MAX_BODY:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            self.server.posts.append((time.time(), self.rfile.read(int(length))))
            self._answer(HTTPStatus.OK)

    def _answer(self, status: HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing: what comes in is none of the run's."""
