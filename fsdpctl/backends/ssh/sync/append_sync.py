"""A copy that follows a file which only grows, and begins anew where it did not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from fsdpctl.contract.files import open_file

BLOCK = 4 * 2**20
OVERLAP = 512
"""Read again each time: a file that was replaced by a longer one does not have the end of the old one there."""

Read = Callable[[int, int], bytes]
"""offset, at most so many bytes -> what is there"""


def append_sync(copy: Path, size: int, read: Read) -> bool:
    """Bring the copy nearer to a file of `size` bytes, a block at a time; True once it has all of them."""
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
    """Write it aside and rename: a reader sees the old or the new."""
    aside = path.with_name(f".{path.name}.mirrored")
    aside.write_bytes(data)
    aside.replace(path)


def _last_bytes(path: Path) -> tuple[int, bytes]:
    try:
        with open_file(path) as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - OVERLAP))
            return size, file.read()
    except FileNotFoundError:
        return 0, b""
