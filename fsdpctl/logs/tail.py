"""Read the end of a file, and continue while it grows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fsdpctl.contract.files import open_file
from fsdpctl.logs.splitter import LineSplitter

BLOCK = 65_536
_GONE = (0, 0)  # the identity of a missing file: one that appears later differs, even if it gets the same inode


class Tail:
    """Reads a file that may grow, shrink, vanish, be replaced, or not exist yet. The caller decides when to poll.

    The file is opened again for every read, which makes an NFS client ask the server for new data.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.mtime = 0.0  # when the file last changed, as of the last poll
        self._path = path
        self._offset = start
        self._identity: tuple[int, int] | None = None
        self._splitter = LineSplitter()

    def poll(self, *, final: bool = False) -> Iterator[str]:
        """Yield the lines since the last poll; with `final` also a last line without a newline."""
        try:
            yield from self._arrived()
        except FileNotFoundError:
            self._identity = _GONE
        except OSError:
            pass  # like a stale NFS handle: the next poll may succeed
        if final:
            yield from self._splitter.end()

    def _arrived(self) -> Iterator[str]:
        stat = self._path.stat()
        identity = (stat.st_dev, stat.st_ino)
        if self._identity not in (None, identity) or stat.st_size < self._offset:
            yield from self._splitter.end()
            self._offset = 0
        self._identity = identity
        self.mtime = stat.st_mtime
        if stat.st_size == self._offset:
            return
        with open_file(self._path) as file:
            file.seek(self._offset)
            # Only up to the size seen: a rank that never stops writing must not block the others.
            while self._offset < stat.st_size and (block := file.read(BLOCK)):
                self._offset += len(block)
                yield from self._splitter.feed(block)


def start_of_last(path: Path, count: int) -> int:
    """Return the offset at which the last `count` whole lines begin; a partial line after them is not counted."""
    with contextlib.suppress(FileNotFoundError), open_file(path) as file:
        return _after_newline_from_end(file, count + 1)
    return 0


def _after_newline_from_end(file: BinaryIO, wanted: int) -> int:
    position = file.seek(0, os.SEEK_END)
    while position > 0:
        size = min(BLOCK, position)
        position = file.seek(position - size)
        block = file.read(size)
        if (found := block.count(b"\n")) >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rindex(b"\n", 0, at)
            return position + at + 1
        wanted -= found
    return 0
