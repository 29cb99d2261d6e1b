"""Read and write files of one host over SFTP. Every answer has a time limit."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.transport.link import Link

if TYPE_CHECKING:
    from paramiko import SFTPAttributes, SFTPClient

T = TypeVar("T")
REQUESTS = 64
"""Requests of 32 KiB in flight: enough for a high latency, and servers drop a client that sends thousands."""


@dataclass(frozen=True)
class Stamp:
    """Size and time of a file: if they differ, it has changed."""

    size: int
    mtime: int


class HostFiles:
    """One session for one thread, opened when first used and again after it broke. All methods raise HostError."""

    def __init__(self, link: Link, timeout_s: float) -> None:
        self._link, self._timeout_s = link, timeout_s
        self._session: SFTPClient | None = None

    def files(self, directory: Path) -> dict[str, Stamp]:
        """Return the plain files of a directory; none if it does not exist."""
        return {
            entry.filename: Stamp(entry.st_size or 0, entry.st_mtime or 0)
            for entry in self._list(directory)
            if stat.S_ISREG(entry.st_mode or 0)
            and "/" not in entry.filename  # a name from a host becomes a file name here
        }

    def directories(self, directory: Path) -> list[str]:
        return [entry.filename for entry in self._list(directory) if stat.S_ISDIR(entry.st_mode or 0)]

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """Return at most `size` bytes; none if the file does not exist."""

        def act(session: SFTPClient) -> bytes:
            try:
                with session.open(str(path), "rb") as file:
                    file.seek(offset)
                    return bytes(file.read(size))
            except FileNotFoundError:
                return b""

        return self._do(act)

    def fetch(self, path: Path, to: Path) -> None:
        """Copy a file of any size to this machine."""
        self._do(lambda session: session.get(str(path), str(to), max_concurrent_prefetch_requests=REQUESTS))

    def write(self, path: Path, data: bytes) -> None:
        """Replace a small file, so that a reader sees the old or the new content."""
        temporary = str(path.with_name(f".{path.name}.pushed"))

        def act(session: SFTPClient) -> None:
            with session.open(temporary, "wb") as file:
                file.chmod(0o600)
                file.write(data)
            session.posix_rename(temporary, str(path))

        self._do(act)

    def remove(self, path: Path) -> None:
        self._do(lambda session: session.remove(str(path)))

    def make_directory(self, path: Path) -> None:
        """Make a directory, unless it exists."""

        def act(session: SFTPClient) -> None:
            try:
                session.stat(str(path))
            except FileNotFoundError:
                session.mkdir(str(path), 0o700)

        self._do(act)

    def close(self) -> None:
        if self._session is not None:
            self._session.close()
        self._session = None

    def _list(self, directory: Path) -> list[SFTPAttributes]:
        def act(session: SFTPClient) -> list[SFTPAttributes]:
            try:
                return list(session.listdir_attr(str(directory)))
            except FileNotFoundError:
                return []

        return self._do(act)

    def _do(self, act: Callable[[SFTPClient], T]) -> T:
        self._session = self._session or self._link.open_files(self._timeout_s)
        try:
            return act(self._session)
        except Exception as error:  # as in `Link.run`: any kind of error when a connection dies
            self.close()
            raise HostError(f"{self._link.target}: {error or type(error).__name__}", passing=True) from error
