"""The new lines of a growing log, with bounded work: of a log that grows too fast only the newest are read."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.files import open_file

MAX_READ = 256 * 2**10
"""Bytes of one look."""
MAX_LINE = 2000
"""Bytes of a line that are read; the rest of it is not."""
_LINE_END = re.compile(rb"[\r\n]+")
"""A progress bar begins its line again with a carriage return."""


@dataclass(frozen=True)
class LogLine:
    """One complete line, and about when it was written, in seconds since the epoch."""

    text: str
    time: float


class LogTail:
    """Reads a log from its beginning, also one that does not exist yet."""

    def __init__(self, path: Path, since: float) -> None:
        self._path, self._position, self._since = path, 0, since
        self._rest = b""

    def read(self, now: float) -> list[LogLine]:
        """Return the lines that are complete since the last look."""
        new = self._read_new()  # which may drop the rest of the line before
        *complete, self._rest = _LINE_END.split(self._rest + new)
        self._rest = self._rest[:MAX_LINE]
        lines = [line[:MAX_LINE].decode(errors="replace") for line in complete if line]
        # Nothing but the time of the look is known: the lines between two of them are spread over that time.
        since, self._since = self._since, now
        return [LogLine(text, since + (now - since) * (i + 1) / len(lines)) for i, text in enumerate(lines)]

    def _read_new(self) -> bytes:
        try:
            with open_file(self._path) as file:
                size = file.seek(0, os.SEEK_END)
                if size - self._position > MAX_READ:
                    self._position, self._rest = size - MAX_READ, b""
                file.seek(self._position)
                data = file.read(MAX_READ)
        except OSError:
            return b""
        self._position += len(data)
        return data
