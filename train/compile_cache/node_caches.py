"""The caches of one key in the compiler's directory of this node: each attempt uses one of them.

A cache is ready once a step was compiled. Every rank that uses one holds a lock on it; those that no process uses are
removed when another one gets ready, those of other keys only if they were not used for long.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from contextlib import suppress
from pathlib import Path

from train.compile_cache.archive import IN_USE, READY, unpack
from train.compile_cache.stored import is_private

KEEP_S = 30 * 86_400
"""How long caches of other keys stay after their last use began."""


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
        descriptor = None
        while descriptor is None:
            descriptor = _lock(directory)
        self._leave()
        self._in_use = descriptor
        return directory

    def mark_ready(self, name: str) -> None:
        (self.directory(name) / READY).touch(0o600)

    def drop(self, name: str) -> None:
        """Use no cache any more, and remove one that could not be completed, unless another process uses it."""
        self._leave()
        _remove_unless_used(self.directory(name))

    def remove_unused(self, name: str) -> None:
        """Remove caches that no process uses: the others of this key, and those of other keys after KEEP_S."""
        for directory in self.root.iterdir():
            if directory.name != name:
                _remove_unless_used(directory)
        for directory in self._own.glob("*/*"):
            if directory.parent != self.root and _last_use(directory) < time.time() - KEEP_S:
                _remove_unless_used(directory)
                with suppress(OSError):  # it has others
                    directory.parent.rmdir()

    def _leave(self) -> None:
        if self._in_use is not None:
            os.close(self._in_use)
        self._in_use = None


def _lock(directory: Path) -> int | None:
    """Return a descriptor that holds the lock of a cache, made if it is not there; None if it was removed meanwhile."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / IN_USE
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        os.utime(descriptor)
        if path.exists() and os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    return None


def _last_use(directory: Path) -> float:
    """Return when a process began to use a cache, seconds since the epoch; now if that cannot be read."""
    try:
        return (directory / IN_USE).stat().st_mtime
    except OSError:
        return time.time()


def _remove_unless_used(directory: Path) -> None:
    """Remove a cache, renamed first: one that is used from now on is another one."""
    removed = directory.with_name(f"{directory.name}.removed")
    with suppress(OSError), open(directory / IN_USE, "ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (directory / READY).unlink(missing_ok=True)
        directory.rename(removed)
        shutil.rmtree(removed, ignore_errors=True)
