"""What is sent over the Unix socket of the fork server: JSON after its length, and descriptors with a request."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

_LENGTH = struct.Struct("!I")
_MAX_DESCRIPTORS = 3
_CREDENTIALS = struct.Struct("3i")  # pid, uid, gid: SO_PEERCRED of socket(7)


def is_own(connection: socket.socket) -> bool:
    """Return whether the process at the other end belongs to this user: an abstract address has no permissions."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return bool(_CREDENTIALS.unpack(credentials)[1] == os.getuid())


@dataclass(frozen=True)
class Request:
    """What a forked child is to become."""

    module: str  # whose `main` is called
    argv: list[str]  # for it: `sys.argv` without the program
    env: dict[str, str]
    directory: str
    title: list[str]  # the command as `ps` shows it


def send_request(connection: socket.socket, request: Request, streams: Sequence[int]) -> None:
    """Send a request with its three standard streams."""
    data = json.dumps(asdict(request)).encode(errors="surrogateescape")
    socket.send_fds(connection, [_LENGTH.pack(len(data))], list(streams))
    connection.sendall(data)


def receive_request(connection: socket.socket) -> tuple[Request, list[int]] | None:
    """Return the next request and its streams; None at the end of the connection."""
    header, streams, _flags, _address = socket.recv_fds(connection, _LENGTH.size, _MAX_DESCRIPTORS)
    if len(header) < _LENGTH.size:
        for stream in streams:
            os.close(stream)
        return None
    data = _receive_exactly(connection, _LENGTH.unpack(header)[0])
    return Request(**json.loads(data.decode(errors="surrogateescape"))), streams


def send_value(connection: socket.socket, value: Any) -> None:
    data = json.dumps(value).encode()
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive_value(connection: socket.socket) -> Any:
    """Return the next value. Raise EOFError at the end of the connection."""
    return json.loads(_receive_exactly(connection, _LENGTH.unpack(_receive_exactly(connection, _LENGTH.size))[0]))


def _receive_exactly(connection: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 20))
        if not part:
            raise EOFError
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
