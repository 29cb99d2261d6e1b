"""A cache as one sequence of bytes, to be saved with the run and sent to other nodes.

It is an archive of the compiler's directory, since artifacts of torch.compiler have no code that a C++ compiler has
made. Kernels of Triton are in the entries of its graphs. Entries are pickles, which the compiler loads: only a file is
read that no other user can have written.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from fsdpctl.contract.files import open_file

READY, IN_USE = "ready", "in-use"
"""Files at the top of a directory that the compiler did not write."""
NOT_PACKED = {"triton", "locks", READY, IN_USE}
"""At the top, too: copies of kernels that are packed already, with paths of this node in them, and locks."""
_MAGIC = b"fsdpctl compile cache 1"
_FAST = 1
"""The level of compression."""


class Unusable(Exception):
    """The stored cache cannot be used; the text is the reason."""


@dataclass(frozen=True)
class Stored:
    """A cache that is saved with a run."""

    key: str
    name: str
    payload: bytes


def find_files(directory: Path) -> list[str]:
    """Return the names of the files that are packed, without temporary ones."""
    names = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(str(name) for name in names if name.parts[0] not in NOT_PACKED and not name.name.startswith("."))


def names_in(payload: bytes) -> set[str]:
    """Return the names of the files in an archive."""
    with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as archive:
        return set(archive.getnames())


def pack(directory: Path) -> bytes:
    """Return the files of the compiler's directory as an archive. Raise OSError."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=_FAST) as archive:
        for name in find_files(directory):
            archive.add(directory / name, name, recursive=False)
    return buffer.getvalue()


def unpack(payload: bytes, directory: Path) -> None:
    """Write the files of an archive, each as a whole, since another run may load what it replaces.

    Raise OSError, or tarfile.TarError for a name that leads elsewhere.
    """
    with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isreg() else None
            if content is None or name.is_absolute() or ".." in name.parts:
                raise tarfile.ReadError(f"{member.name} is no file of a cache")
            path = directory / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _replace(path, content.read())


def write_stored(path: Path, stored: Stored) -> None:
    """Replace the cache of a run; a reader sees the old or the new one. Mode 0600."""
    _replace(path, b"\n".join((_header(stored), stored.payload)))


def read_stored(path: Path, key: str) -> Stored | None:
    """Return the cache of a run; None if there is none, or one of another key. Raise Unusable."""
    try:
        with open_file(path) as file:
            if not all(is_private(status) for status in (os.fstat(file.fileno()), path.parent.stat())):
                raise Unusable("another user could have written it")
            header, _, payload = file.readall().partition(b"\n")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Unusable(f"cannot be read: {error.strerror}") from None
    words = header.decode(errors="replace").removeprefix(_MAGIC.decode()).split()
    if not header.startswith(_MAGIC) or len(words) != 3:
        raise Unusable("not a cache of this version")
    stored = Stored(words[0], words[1], payload)
    if header != _header(stored):
        raise Unusable("damaged: its digest differs")
    return stored if stored.key == key else None


def is_private(status: os.stat_result) -> bool:
    """Return whether no other user can write there."""
    return status.st_uid == os.geteuid() and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _header(stored: Stored) -> bytes:
    named = f"{stored.key} {stored.name}".encode()
    digest = hashlib.sha256(named + stored.payload).hexdigest()
    return b" ".join((_MAGIC, named, digest.encode()))


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "wb") as file:
            file.write(content)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
