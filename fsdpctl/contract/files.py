"""A run's files: only regular ones are opened, because a FIFO or a device could block; they are replaced as a whole."""

from __future__ import annotations

import errno
import fcntl
import math
import os
import stat
from io import FileIO
from pathlib import Path

NO_FILE = errno.ENXIO
"""The error of open(2) for a socket."""
FULL_DISK = (errno.ENOSPC, errno.EDQUOT)
"""The errors of write(2) and open(2) for a disk without free bytes or inodes, and an exceeded quota."""
NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ELOOP, NO_FILE)
"""The errors of open(2) and stat(2) for a path that has no file that this user may read."""
PASSING = (
    *(errno.ESTALE, errno.ETIMEDOUT, errno.EREMOTEIO, errno.EKEYEXPIRED, errno.ENOTCONN, errno.ESHUTDOWN),
    *(errno.ECONNREFUSED, errno.ECONNRESET, errno.ECONNABORTED, errno.EHOSTDOWN, errno.EHOSTUNREACH),
    *(errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.ENOLINK, errno.ECOMM),
    *(errno.EAGAIN, errno.EINTR, errno.ENOMEM, errno.ENOBUFS, errno.EMFILE, errno.ENFILE),
)
"""The errors of a file server, its mount, or this process, which report nothing about the file itself.

Not EIO: it comes from a block that can never be read again, too.
"""

_MIN_FREE_BYTES = 2**20
_MIN_FREE_FILES = 16


def describe_disk(path: Path) -> str:
    """Return text for a reason if the disk of `path` is full: a process that ended there could not record why.

    Empty if it is not full, and for an exceeded quota, which cannot be seen.
    """
    try:
        disk = os.statvfs(path)
    except OSError:
        return ""
    if disk.f_bavail * disk.f_frsize < _MIN_FREE_BYTES:
        return f"; no space is left on the disk of {path}"
    if count_free_inodes(disk) < _MIN_FREE_FILES:
        return f"; the disk of {path} can take no more files: it has no inodes left"
    return ""


def count_free_inodes(disk: os.statvfs_result) -> float:
    """Return how many files can be created; infinite on file systems without a limit, which report none at all."""
    return disk.f_favail if disk.f_files else math.inf


def open_file(path: Path) -> FileIO:
    """Open to read, unbuffered. Raise OSError; with NO_FILE for a FIFO, a device, a socket or a directory."""
    return FileIO(_open(path, os.O_RDONLY))


def open_log(path: Path) -> int:
    """Return a descriptor that appends; a new file has mode 0600. Raise as `open_file` does."""
    return _open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def take_lock(path: Path) -> int | None:
    """Return a descriptor that holds the lock of this file while open, on NFS too; None if another process has it.

    Raise as `open_file` does, and OSError on a file system without locks.
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


def replace_file(path: Path, content: bytes, owner: str, *, durable: bool) -> None:
    """Replace a file as a whole: a reader sees the old or the new one. Mode 0600. Raise OSError.

    `owner`: in the name of the temporary file, which a process that is killed leaves. `durable`: flushed to disk.
    """
    temporary = path.with_name(f".{path.name}.{owner}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            error.filename = error.filename or str(path)  # write(2) and fsync(2) name none
        raise


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
    """Return the whole file. Raise as `open_file` does."""
    with open_file(path) as file:
        return file.readall()


def read_tail(path: Path, limit: int) -> bytes:
    """Return at most the last `limit` bytes of the file. Raise as `open_file` does."""
    with open_file(path) as file:
        file.seek(max(0, file.seek(0, os.SEEK_END) - limit))
        return file.readall()
