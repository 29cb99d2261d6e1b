"""Opening a run's files: nothing but regular files, or one would wait at a FIFO for the other side, or for a device.
And what is said where their disk is full."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from io import FileIO
from pathlib import Path

NO_FILE = errno.ENXIO
"""What open(2) itself says of a socket."""
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""What write(2) says of a disk, and of a user's share of it."""

_ROOM = 2**20


def describe_disk(path: Path) -> str:
    """What a reason adds where the disk of `path` has no room: whoever ended there could not say so. Of a share that is
    used up it says nothing."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return ""
    return f"; no space is left on the disk of {path}" if disk.f_bavail * disk.f_frsize < _ROOM else ""


def open_file(path: Path) -> FileIO:
    """Open to read, without a buffer. Raises OSError; with NO_FILE for a FIFO, a device, a socket or a directory."""
    return FileIO(_open(path, os.O_RDONLY))


def open_log(path: Path) -> int:
    """A descriptor that appends; a new file is its owner's alone. Raises as `open_file` does."""
    return _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def take_lock(path: Path) -> int | None:
    """A descriptor that holds the lock of this file while it is open, on NFS too; None while another process has it.

    Raises as `open_file` does, and where a file system has no locks.
    """
    descriptor = _open(path, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if error.errno in (errno.EAGAIN, errno.EACCES):
            return None
        raise OSError(error.errno, error.strerror, str(path)) from None
    return descriptor


def _open(path: Path, flags: int) -> int:
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno == NO_FILE:
            raise _no_file(path) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _no_file(path)
    return descriptor


def _no_file(path: Path) -> OSError:
    return OSError(NO_FILE, "not a regular file", str(path))


def read_bytes(path: Path) -> bytes:
    """The whole file. Raises as `open_file` does."""
    with open_file(path) as file:
        return file.readall()


def read_tail(path: Path, limit: int) -> bytes:
    """The last `limit` bytes of the file at most. Raises as `open_file` does."""
    with open_file(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
        return file.readall()
