"""Copy a growing file by appending what is new; start over if the file was replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fsdpctl.contract.files import open_file

BLOCK = 4 * 2**20
OVERLAP = 512
"""Bytes that are read again each time: a file that was replaced by a longer one differs there."""

Read = Callable[[int, int], bytes]
"""(offset, maximum number of bytes) -> bytes"""


def append_sync(copy: Path, size: int, read: Read) -> bool:
    """Append at most one block of a file of `size` bytes to its copy; return whether the copy is complete."""
    have, end = _last_bytes(copy)
    want = min(size - have, BLOCK)
    data = read(have - len(end), len(end) + want) if want >= 0 else b""
    if want >= 0 and data.startswith(end):
        with open(copy, "ab") as file:
            file.write(data[len(end) :])
        return have + len(data) - len(end) >= size
    replace(copy, read(0, min(size, BLOCK)))
    return size <= BLOCK


def replace(path: Path, data: bytes) -> None:
    """Write a temporary file and rename it: a reader sees the old or the new content."""
    temporary = path.with_name(f".{path.name}.mirrored")
    temporary.write_bytes(data)
    temporary.replace(path)


def _last_bytes(path: Path) -> tuple[int, bytes]:
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - OVERLAP))
            return size, file.read()
    except FileNotFoundError:
        return 0, b""
