"""When the bytes of a log were written: an index beside it, one record for each growth that the agent has seen.

Ranks write directly into their logs, so that nothing is between them and the disk, whatever dies. The agent only looks
at the sizes; an entry records that the log grew to `end` bytes between two looks, `since` and `time`.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader, FileIO
from pathlib import Path

from fsdpctl.contract.files import open_file, open_log, read_bytes

_RECORD = struct.Struct("<Qdd")
LIMIT_BYTES = 2**20
"""An index that has become so long is thinned to about half of it: the times of older lines become less exact."""
_EXACT = 500
"""The newest entries, which are never joined: lines that are being followed keep their order."""


@dataclass(frozen=True)
class Growth:
    """The log had grown to `end` bytes at `time`; the look before was at `since`. Seconds since the epoch."""

    end: int
    since: float
    time: float


def append_growth(times: Path, *growths: Growth) -> None:
    """Add entries to an index, which is created if it is missing, and thinned if it becomes too long. Raise OSError."""
    descriptor = open_log(times)
    try:
        os.write(descriptor, _pack(growths))
        is_too_long = os.fstat(descriptor).st_size >= LIMIT_BYTES
    finally:
        os.close(descriptor)
    if is_too_long:
        _thin(times)


def _thin(times: Path) -> None:
    """Replace an index by a shorter one. Raise OSError."""
    data = read_bytes(times)
    entries = [Growth(*one) for one in _RECORD.iter_unpack(data[: len(data) // _RECORD.size * _RECORD.size])]
    kept = [*join_close(entries[:-_EXACT], LIMIT_BYTES // _RECORD.size // 2), *entries[-_EXACT:]]
    temporary = times.with_name(f".{times.name}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "wb") as file:
        file.write(_pack(kept))
    temporary.replace(times)


def join_close(entries: Sequence[Growth], count: int) -> list[Growth]:
    """Return at most `count` entries: neighbours are joined into one while it spans no more than a fixed time.

    Two neighbours in the result span more than that time, or they would have been joined: so there are few. An entry
    after a pause stays exact.
    """
    limit_s = 2 * (entries[-1].time - entries[0].since) / count
    joined: list[Growth] = []
    for entry in entries:
        if joined and entry.time - joined[-1].since <= limit_s:
            joined[-1] = Growth(entry.end, joined[-1].since, entry.time)
        else:
            joined.append(entry)
    return joined


def _pack(growths: Iterable[Growth]) -> bytes:
    return b"".join(_RECORD.pack(growth.end, growth.since, growth.time) for growth in growths)


class TimesReader:
    """Reads the entries of an index from a position of its log on, and later those that were added."""

    def __init__(self, times: Path, start: int) -> None:
        self._path, self._start = times, start
        self._next: int | None = None  # the number of the next entry
        self._file_number = 0

    def read(self) -> Iterator[Growth]:
        """Yield the entries since the last call that end after the start position, also those that are added meanwhile;
        none without an index."""
        try:
            file = BufferedReader(open_file(self._path))
        except OSError:
            return
        with file:
            number = os.fstat(file.fileno()).st_ino
            if self._next is None or number != self._file_number:  # a thinned index is another file
                self._next, self._file_number = self._first(file), number
            file.seek(self._next * _RECORD.size)
            while len(record := file.read(_RECORD.size)) == _RECORD.size:
                self._next += 1
                growth = Growth(*_RECORD.unpack(record))
                self._start = growth.end
                yield growth

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
