"""The cache of a node: a directory for each data set, named by the digest of its index.

`$FSDPCTL_DATA_CACHE/<digest>/` has the files of one data set, and `<digest>.in-use` beside it is locked by every
process that reads them, for as long as it runs. A data set that no process uses is removed where another one needs the
room, the least recently used one first.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.codec import CodecError, write_text
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.formats.dataset import INDEX_NAME, Index, ShardFile, read_index
from fsdpctl.remote_data.location import RemoteDataError

GIB = 2**30
DEFAULT_SHARE = 0.5
"""Of the disk, where no size is set."""
POLL_S = 0.2
_NAME = re.compile("[0-9a-f]{32}")


@dataclass(frozen=True)
class Cache:
    """The directory of this user on this node, and the bytes that it may hold."""

    root: Path
    max_bytes: int

    def directory_of(self, index: bytes) -> Path:
        return self.root / hashlib.sha256(index).hexdigest()[:32]


def open_cache(env: Mapping[str, str]) -> Cache:
    """Return the cache that the environment names, after creating it. Raise RemoteDataError if it cannot be used."""
    root = Path(env.get(Env.DATA_CACHE) or f"/var/tmp/fsdpctl-data-{os.geteuid()}")
    if not root.is_absolute():
        raise RemoteDataError(f"{Env.DATA_CACHE} must be an absolute path, got {str(root)!r}")
    try:
        root.mkdir(0o700, parents=True, exist_ok=True)
        found, link, disk = root.stat(), root.lstat(), os.statvfs(root)
    except OSError as error:
        raise RemoteDataError(f"data cache {root}: {error.strerror}", hint=_ELSEWHERE) from None
    if {found.st_uid, link.st_uid} != {os.geteuid()} or stat.S_IMODE(found.st_mode) & 0o022:
        raise RemoteDataError(f"data cache {root} can be changed by other users", hint=_ELSEWHERE)
    return Cache(root, _max_bytes(env, disk.f_blocks * disk.f_frsize))


_ELSEWHERE = f"set {Env.DATA_CACHE} under `env` of the profile to a directory on a disk of the node"


def _max_bytes(env: Mapping[str, str], disk_bytes: int) -> int:
    text = env.get(Env.DATA_CACHE_GIB)
    if not text:
        return int(disk_bytes * DEFAULT_SHARE)
    try:
        size = float(text)
        if not 0 < size < float("inf"):
            raise ValueError
    except ValueError:
        raise RemoteDataError(f"{Env.DATA_CACHE_GIB} must be a number of GiB greater than 0, got {text!r}") from None
    return int(size * GIB)


def needed_files(index: Index) -> list[ShardFile]:
    """Return what ranks read: tokens, the ends of documents, and masks."""
    return [file for shard in (*index.train, *index.val) for file in shard.files(index.dtype)]


def use(cache: Cache, directory: Path, index: bytes) -> None:
    """Mark a data set as in use until this process ends, and store its index."""
    descriptor = os.open(_in_use(directory), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.lockf(descriptor, fcntl.LOCK_SH)
    os.utime(descriptor)  # when it was used last
    directory.mkdir(0o700, exist_ok=True)
    path = directory / INDEX_NAME
    if not path.is_file() or path.read_bytes() != index:
        write_text(path, index.decode())


def make_room(cache: Cache, directory: Path) -> None:
    """Remove data sets that no process uses until this one fits. Raise RemoteDataError if it cannot fit."""
    needed = _reserved(directory)
    with _lock(cache.root / "lock"):
        others = [path for path in _data_sets(cache) if path != directory]
        total = needed + sum(map(_reserved, others))
        for other in sorted(others, key=_last_used):
            if total <= cache.max_bytes and _fits_on_disk(directory, needed):
                return
            size = _reserved(other)
            if _remove_unused(other):
                total -= size
        if total <= cache.max_bytes and _fits_on_disk(directory, needed):
            return
    taken = total - needed
    raise RemoteDataError(
        f"data cache {cache.root}: the data takes {needed / GIB:.2f} GiB; {cache.max_bytes / GIB:.2f} GiB are allowed,"
        f" {taken / GIB:.2f} GiB of them are used by other runs, and {_free(cache.root) / GIB:.2f} GiB of the disk are"
        " free. Steps take sequences from all of it, so that a part of it is no use",
        hint=f"set {Env.DATA_CACHE} to a larger disk, or {Env.DATA_CACHE_GIB} higher, under `env` of the profile",
    )


def _data_sets(cache: Cache) -> Sequence[Path]:
    """Return what this cache has made: in a directory that has other data, too, nothing else is ever removed."""
    return [
        path
        for path in cache.root.iterdir()
        if _NAME.fullmatch(path.name) and _in_use(path).exists() and (path / INDEX_NAME).is_file()
    ]


def _reserved(directory: Path) -> int:
    """Return the size of a data set when all of it is there."""
    try:
        return sum(file.num_bytes for file in needed_files(read_index(directory)))
    except (OSError, CodecError):
        return _stored_bytes(directory.glob("*"))


def _fits_on_disk(directory: Path, needed: int) -> bool:
    return needed - _stored_bytes(directory.glob("*.*")) <= _free(directory)


def _stored_bytes(paths: Iterable[Path]) -> int:
    """Return the size of the regular files. Other ranks rename and remove files at the same time."""
    total = 0
    for path in paths:
        with suppress(FileNotFoundError):
            found = path.lstat()
            total += found.st_size if stat.S_ISREG(found.st_mode) else 0
    return total


def _free(path: Path) -> int:
    disk = os.statvfs(path)
    return disk.f_bavail * disk.f_frsize


def _in_use(directory: Path) -> Path:
    return directory.with_name(f"{directory.name}.in-use")


def _last_used(directory: Path) -> float:
    try:
        return _in_use(directory).stat().st_mtime
    except OSError:
        return 0.0


def _remove_unused(directory: Path) -> bool:
    """Remove a data set that no process uses. The file of the lock stays: others may be waiting for it."""
    if (descriptor := take_lock(_in_use(directory))) is None:
        return False
    try:
        with suppress(FileNotFoundError):
            (directory / INDEX_NAME).unlink()  # first: what is left of a removal is no data set
        shutil.rmtree(directory, ignore_errors=True)
    finally:
        os.close(descriptor)
    return True


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    while (descriptor := take_lock(path)) is None:
        time.sleep(POLL_S)
    try:
        yield
    finally:
        os.close(descriptor)
