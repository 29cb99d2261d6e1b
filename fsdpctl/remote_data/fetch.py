"""Bring the files of a data set into the cache of the node.

All ranks of a node, and of all runs on it, call this at once and divide the files among them: who has the lock of a
file fetches it, the others take another one and wait for those that are left. A lock ends with its process. A file has
its final name only once its digest was the one in the index.
"""

from __future__ import annotations

import errno
import hashlib
import os
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.formats.dataset import INDEX_NAME, ShardFile, parse_index
from fsdpctl.remote_data.cache import POLL_S, make_room, needed_files, open_cache, use
from fsdpctl.remote_data.file_stamp import BLOCK, is_verified, write_stamp
from fsdpctl.remote_data.location import Location, RemoteDataError

STREAMS = 4
"""Files that one process fetches at a time."""
TRIES = 4
"""Of a file, each after a longer wait; the libraries try single requests again, too."""
FIRST_WAIT_S = 1.0


def fetch_dataset(url: str, env: Mapping[str, str], report: Report) -> Path:
    """Return the directory in the node's cache with the verified data behind `url`, in use until this process ends.

    `report` takes the bytes of progress, this process's and others'; any thread calls it. Raise RemoteDataError.
    """
    location, cache = Location(url), open_cache(env)
    text = location.read(INDEX_NAME)
    try:
        files = needed_files(parse_index(text, f"{location.url}/{INDEX_NAME}"))
    except CodecError as error:
        raise RemoteDataError(str(error)) from None
    directory = cache.directory_of(text)
    try:
        use(cache, directory, text)
        make_room(cache, directory)
        _fetch_all(location, files, directory, report)
    except OSError as error:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise RemoteDataError(f"data cache {directory}: {error.strerror}", is_lasting=is_full) from None
    return directory


def _fetch_all(location: Location, files: list[ShardFile], directory: Path, report: Report) -> None:
    waiting, seen = files, -1
    with ThreadPoolExecutor(STREAMS, thread_name_prefix="fetch") as pool:
        while True:
            there = list(pool.map(lambda file: _ensure(location, file, directory, report), waiting))
            waiting = [file for file, is_there in zip(waiting, there, strict=True) if not is_there]
            if not waiting:
                return
            if (now := _fetched_bytes(directory, waiting)) != seen:  # by the processes that fetch them
                seen = now
                report(0)
            time.sleep(POLL_S)


def _ensure(location: Location, file: ShardFile, directory: Path, report: Report) -> bool:
    """Return whether the file is there, after fetching it; False while another process fetches it."""
    if (lock := take_lock(directory / f".{file.name}.lock")) is None:
        return False
    try:
        if not is_verified(directory, file, report):
            _fetch(location, file, directory, report)
        return True
    finally:
        os.close(lock)


def _fetch(location: Location, file: ShardFile, directory: Path, report: Report) -> None:
    for number in range(1, TRIES + 1):
        try:
            _fetch_once(location, file, directory, report)
            return
        except RemoteDataError as error:
            if error.is_lasting or number == TRIES:
                raise
        time.sleep(FIRST_WAIT_S * 2 ** (number - 1))


def _fetch_once(location: Location, file: ShardFile, directory: Path, report: Report) -> None:
    temporary = _temporary(directory, file)
    temporary.unlink(missing_ok=True)
    try:
        sha256 = _download(location, file, temporary, report)
        if sha256 != file.sha256:
            raise RemoteDataError(
                f"{location.url}/{file.name} is damaged: its sha256 is not the index's",
                hint=f"fsdpctl data check {location.url}",
                is_lasting=False,
            )
        temporary.rename(directory / file.name)
    finally:
        temporary.unlink(missing_ok=True)
    write_stamp(directory, file)


def _download(location: Location, file: ShardFile, path: Path, report: Report) -> str:
    """Return the digest of what was written and flushed to disk."""
    digest = hashlib.sha256()
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
        for block in location.blocks(file.name, BLOCK):
            if out.tell() + len(block) > file.num_bytes:
                break
            out.write(block)
            digest.update(block)
            report(len(block))
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _temporary(directory: Path, file: ShardFile) -> Path:
    return directory / f".{file.name}.fetched"


def _fetched_bytes(directory: Path, files: list[ShardFile]) -> int:
    """Return how far other processes are with these files."""
    sizes = 0
    for path in (_temporary(directory, file) for file in files):
        with suppress(OSError):
            sizes += path.stat().st_size
    return sizes
