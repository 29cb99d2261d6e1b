"""Real servers on this machine that take notices, or do not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from fsdpctl.contract import Cause, State
from fsdpctl.contract.notify import Form, Notice, NotifyTarget, SecretPlace, Webhook

SECRET_PATH = "/services/T0AB12CD3/5ecretToken99"

FAILED = Notice(
    ("end", "failure"), "mine-k3f9", "mine", "/runs/mine-k3f9", 1e9, 2, State.FAILED, Cause.EXIT_CODE,
    "node 0: rank 1: exit code 3", step=40, why="exit_code (not known): it left", change="look at its log",
)  # fmt: skip


@dataclass
class HttpServer:
    """A server that gives the answers one after the other, then the last one for ever."""

    answers: Sequence[int]
    url: str = ""
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)
    hold: threading.Event = field(default_factory=threading.Event)  # set: answers; else it keeps clients waiting

    @property
    def bodies(self) -> list[Any]:
        return [body for _, _, body in self.requests]


@contextmanager
def http_server(*answers: int, is_slow: bool = False) -> Iterator[HttpServer]:
    server = HttpServer(answers or (200,))
    if not is_slow:
        server.hold.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.requests.append((self.path, dict(self.headers), body))
            server.hold.wait()
            code = server.answers[min(len(server.requests), len(server.answers)) - 1]
            self.send_response(code)
            if code in (301, 302):
                self.send_header("Location", "/elsewhere")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.url = f"http://127.0.0.1:{http.server_port}{SECRET_PATH}"
    thread = threading.Thread(target=http.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.hold.set()
        http.shutdown()
        thread.join()
        http.server_close()


def webhook(url: str, directory: Path, form: Form = "json") -> NotifyTarget:
    """A target whose URL is in a file."""
    file = directory / f"url-{len(list(directory.glob('url-*')))}"
    file.write_text(f"{url}\n")
    file.chmod(0o600)
    return NotifyTarget(("end", "failure"), 3600, webhook=Webhook(form, SecretPlace(file=str(file))))
