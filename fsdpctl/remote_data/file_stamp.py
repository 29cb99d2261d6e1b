"""Stamps: the state of a file of the cache when its digest was verified. Any later write or replacement changes it."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.codec import write_text
from fsdpctl.contract.files import open_file, read_bytes
from fsdpctl.contract.formats.dataset import ShardFile

BLOCK = 2**22


def is_verified(directory: Path, file: ShardFile, report: Report) -> bool:
    """Return whether the file in the cache has the content that the index lists. It is read only if its stamp does
    not fit: it was written by a process that was killed, or changed afterwards."""
    path = directory / file.name
    try:
        if path.lstat().st_size != file.num_bytes:
            return False
        if _read_stamp(directory, file) == _state(path):
            return True
        if _digest(path, report) != file.sha256:
            return False
        write_stamp(directory, file)
    except OSError:
        return False
    return True


def write_stamp(directory: Path, file: ShardFile) -> None:
    """Record the state of a file that was verified under its present name."""
    write_text(_stamp_path(directory, file), json.dumps([file.sha256, *_state(directory / file.name)]))


def _read_stamp(directory: Path, file: ShardFile) -> list[int] | None:
    try:
        sha256, *state = json.loads(read_bytes(_stamp_path(directory, file)))
    except (OSError, ValueError):
        return None
    return state if sha256 == file.sha256 else None


def _stamp_path(directory: Path, file: ShardFile) -> Path:
    return directory / f".{file.name}.verified"


def _state(path: Path) -> list[int]:
    """The time of the last change of the inode cannot be set: it also changes with the content."""
    found = os.lstat(path)
    return [found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino]


def _digest(path: Path, report: Report) -> str:
    digest = hashlib.sha256()
    with open_file(path) as file:
        while block := file.read(BLOCK):
            digest.update(block)
            report(len(block))
    return digest.hexdigest()
