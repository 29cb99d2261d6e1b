"""When the bytes of a log were written: an index beside it, one record for each growth that the agent has seen.

Ranks write directly into their logs, so that nothing is between them and the disk, whatever dies. The agent only looks
at the sizes; an entry records that the log grew to `end` bytes between two looks, `since` and `time`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path

from fsdpctl.contract.files import open_file, open_log

_RECORD = struct.Struct("<Qdd")


@dataclass(frozen=True)
class Growth:
    """The log had grown to `end` bytes at `time`; the look before was at `since`. Seconds since the epoch."""

    end: int
    since: float
    time: float


def append_growth(times: Path, *growths: Growth) -> None:
    """Add entries to an index, which is created if it is missing. Raise OSError."""
    descriptor = open_log(times)
    try:
        os.write(descriptor, b"".join(_RECORD.pack(growth.end, growth.since, growth.time) for growth in growths))
    finally:
        os.close(descriptor)


class TimesReader:
    """Reads the entries of an index from a position of its log on, and later those that were added."""

    def __init__(self, times: Path, start: int) -> None:
        self._path, self._start = times, start
        self._next: int | None = None  # the number of the next entry

    def read(self) -> Iterator[Growth]:
        """Yield the entries since the last call that end after the start position, also those that are added meanwhile;
        none without an index."""
        try:
            file = BufferedReader(open_file(self._path))
        except OSError:
            return
        with file:
            if self._next is None:
                self._next = self._first(file)
            file.seek(self._next * _RECORD.size)
            while len(record := file.read(_RECORD.size)) == _RECORD.size:
                self._next += 1
                yield Growth(*_RECORD.unpack(record))

    def exists(self) -> bool:
        return self._path.exists()

    def _first(self, file: BufferedReader[FileIO]) -> int:
        low, high = 0, file.seek(0, os.SEEK_END) // _RECORD.size
        while low < high:
            middle = (low + high) // 2
            file.seek(middle * _RECORD.size)
            if _RECORD.unpack(file.read(_RECORD.size))[0] <= self._start:
                low = middle + 1
            else:
                high = middle
        return low
