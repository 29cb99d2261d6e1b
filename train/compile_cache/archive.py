"""The compiler's directory as one sequence of bytes.

Artifacts of torch.compiler would not do: they do not have what a C++ compiler has made. Kernels of Triton are in the
entries of its graphs.
"""

from __future__ import annotations

import io
import os
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from fsdpctl.contract.files import replace_file

READY, IN_USE = "ready", "in-use"
"""Files at the top of a directory that the compiler did not write."""
NOT_PACKED = {"triton", "locks", READY, IN_USE}
"""At the top, too: copies of kernels that are packed already, with paths of this node in them, and locks."""
_FAST = 1
"""The level of compression."""


def find_files(directory: Path) -> list[str]:
    """Return the names of the files that are packed, without temporary ones."""
    names = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(str(name) for name in names if name.parts[0] not in NOT_PACKED and not name.name.startswith("."))


def names_in(payload: bytes) -> set[str]:
    """Return the names of the files in an archive. Raise tarfile.TarError."""
    with _reading(payload) as archive:
        return set(archive.getnames())


def pack(directory: Path) -> bytes:
    """Return the files of the compiler's directory as an archive. Raise OSError."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=_FAST, dereference=True) as archive:
        for name in find_files(directory):
            archive.add(directory / name, name, recursive=False)
    return buffer.getvalue()


def unpack(payload: bytes, directory: Path) -> None:
    """Write the files of an archive, each as a whole, since another run may load what it replaces.

    Raise OSError, or tarfile.TarError for a damaged archive and a name that the compiler did not write.
    """
    with _reading(payload) as archive:
        for member in archive:
            name = PurePosixPath(member.name)
            content = archive.extractfile(member) if member.isreg() else None
            is_elsewhere = name.is_absolute() or ".." in name.parts or name.parts[0] in NOT_PACKED
            if content is None or is_elsewhere:
                raise tarfile.ReadError(f"{member.name} is no file of a cache")
            path = directory / name
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(path, content.read(), str(os.getpid()), durable=False)


@contextmanager
def _reading(payload: bytes) -> Iterator[tarfile.TarFile]:
    try:
        with tarfile.open(fileobj=io.BytesIO(payload), mode="r:gz") as archive:
            yield archive
    except (EOFError, zlib.error) as error:
        raise tarfile.ReadError(f"damaged archive: {error}") from error
