"""The caches of one key in the compiler's directory of this node: each attempt uses one of them.

A cache is ready once a step was compiled. Every rank that uses one holds a lock on it; those that no process uses are
removed when another one gets ready.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from train.compile_cache.archive import IN_USE, READY, unpack
from train.compile_cache.stored import is_private


class NodeCaches:
    """`fsdpctl-UID/KEY/` below the compiler's directory."""

    def __init__(self, compiler_dir: Path) -> None:
        self._compiler_dir = compiler_dir
        self._own = compiler_dir / f"fsdpctl-{os.geteuid()}"
        self.key = ""
        self._in_use: int | None = None

    @property
    def root(self) -> Path:
        return self._own / self.key

    def open(self, key: str) -> None:
        """Make the directory of a key. Raise OSError, also where another user could write there."""
        self.key = key
        self._own.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._compiler_dir.stat().st_uid not in (0, os.geteuid()) or not is_private(self._own.lstat()):
            raise OSError(errno.EPERM, "another user could write there", str(self._own))
        self.root.mkdir(mode=0o700, exist_ok=True)

    def ready(self) -> tuple[str, ...]:
        """Return the names of the caches that are ready, the newest first."""
        marks: list[tuple[float, str]] = []
        for mark in self.root.glob(f"*/{READY}"):
            with suppress(FileNotFoundError):
                marks.append((mark.stat().st_mtime, mark.parent.name))
        return tuple(name for _, name in sorted(marks, reverse=True))

    def directory(self, name: str) -> Path:
        return self.root / name

    def take(self, name: str, payload: bytes) -> None:
        """Keep a cache that came from elsewhere, ready. Raise OSError, or tarfile.TarError."""
        self.use(name)
        unpack(payload, self.directory(name))
        self.mark_ready(name)

    def use(self, name: str) -> Path:
        """Return the directory of a cache, made if it is not there, and locked for as long as this process uses it."""
        directory = self.directory(name)
        directory.mkdir(mode=0o700, exist_ok=True)
        descriptor = os.open(directory / IN_USE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        if self._in_use is not None:
            os.close(self._in_use)
        self._in_use = descriptor
        return directory

    def mark_ready(self, name: str) -> None:
        (self.directory(name) / READY).touch(0o600)

    def remove_others(self, name: str) -> None:
        """Remove the caches of this key that no process uses, but for one."""
        for directory in self.root.iterdir():
            if directory.name == name:
                continue
            with suppress(OSError), open(directory / IN_USE, "ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
