"""Read the end of a file, and continue while it grows."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from fsdpctl.contract.files import open_file
from fsdpctl.logs.splitter import LIMIT, LineSplitter

BLOCK = 65_536
_GONE = (0, 0)  # the identity of a missing file: one that appears later differs, even if it gets the same inode


class Tail:
    """Reads a file that may grow, shrink, vanish, be replaced, or not exist yet. The caller decides when to poll.

    The file is opened again for every read, which makes an NFS client ask the server for new data.
    """

    def __init__(self, path: Path, start: int = 0) -> None:
        self.mtime = 0.0  # when the file last changed, as of the last poll
        self.offset = start  # bytes read so far
        self._path = path
        self._identity: tuple[int, int] | None = None
        self._splitter = LineSplitter()

    def poll(self, *, end: int | None = None, final: bool = False) -> Iterator[str]:
        """Yield the lines since the last poll that are whole, of the first `end` bytes if that is given; with `final`
        also a last line without a newline."""
        try:
            yield from self._arrived(end)
        except FileNotFoundError:
            self._identity = _GONE
        except OSError:
            pass  # like a stale NFS handle: the next poll may succeed
        if final:
            yield from self._splitter.end()

    def _arrived(self, end: int | None) -> Iterator[str]:
        stat = self._path.stat()
        identity = (stat.st_dev, stat.st_ino)
        if self._identity not in (None, identity) or stat.st_size < self.offset:
            yield from self._splitter.end()
            self.offset = 0
        self._identity = identity
        self.mtime = stat.st_mtime
        # Only up to the size seen: a rank that never stops writing must not block the others.
        limit = stat.st_size if end is None else min(stat.st_size, end)
        if limit <= self.offset:
            return
        with open_file(self._path) as file:
            file.seek(self.offset)
            while self.offset < limit and (block := file.read(min(BLOCK, limit - self.offset))):
                self.offset += len(block)
                yield from self._splitter.feed(block)


def start_of_last(path: Path, count: int) -> int:
    """Return the offset at which the last `count` whole lines begin; a partial line after them is not counted.

    At most LIMIT bytes are searched for each of them: a progress bar may write gigabytes without a newline.
    """
    with contextlib.suppress(FileNotFoundError), open_file(path) as file:
        return _after_newline_from_end(file, count + 1, (count + 1) * LIMIT)
    return 0


def _after_newline_from_end(file: BinaryIO, wanted: int, limit: int) -> int:
    position = file.seek(0, os.SEEK_END)
    first = max(0, position - limit)
    while position > first:
        size = min(BLOCK, position - first)
        position = file.seek(position - size)
        block = file.read(size)
        if (found := block.count(b"\n")) >= wanted:
            at = len(block)
            for _ in range(wanted):
                at = block.rindex(b"\n", 0, at)
            return position + at + 1
        wanted -= found
    return first
