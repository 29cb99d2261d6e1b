"""Reading a run's files: nothing but regular files, or a reader would wait for a FIFO's writer, or a device's end."""

from __future__ import annotations

import errno
import os
import stat
from io import FileIO
from pathlib import Path

NO_FILE = errno.ENXIO
"""What open(2) itself says of a socket."""
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""What write(2) says of a disk, and of a user's share of it."""


def open_file(path: Path) -> FileIO:
    """Open to read, without a buffer. Raises OSError; with NO_FILE for a FIFO, a device, a socket or a directory."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(NO_FILE, "not a regular file", str(path))
    return FileIO(descriptor)


def read_bytes(path: Path) -> bytes:
    """The whole file. Raises as `open_file` does."""
    with open_file(path) as file:
        return file.readall()


def read_tail(path: Path, limit: int) -> bytes:
    """The last `limit` bytes of the file at most. Raises as `open_file` does."""
    with open_file(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
        return file.readall()
