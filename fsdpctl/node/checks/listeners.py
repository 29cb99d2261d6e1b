"""Finds the process that holds a port of this host, from /proc: more helpful than `address already in use`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_LISTEN = "0A"


def find_listener(port: int) -> str | None:
    """Return a text like `pid 123 (python3)`; None if there is none or it belongs to another user."""
    sockets = {f"socket:[{inode}]" for inode in _inodes(port)}
    for process in _PROC.glob("[0-9]*"):
        with suppress(OSError):
            if any(str(link.readlink()) in sockets for link in (process / "fd").iterdir()):
                return f"pid {process.name} ({(process / 'comm').read_text().strip()})"
    return None


def _inodes(port: int) -> Iterator[str]:
    for table in ("net/tcp", "net/tcp6"):
        with suppress(OSError):
            for line in (_PROC / table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN and int(fields[1].rpartition(":")[2], 16) == port:
                    yield fields[9]
