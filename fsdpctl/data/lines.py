"""Reads files of lines from any byte on, with file and line in every error."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO, NoReturn

from fsdpctl.data.compression import open_plain
from fsdpctl.data.spans import MAX_DOCUMENT
from fsdpctl.errors import UsageError


class LineReader:
    """Iterates over (byte offset, line), from the first line that begins at or after `start`."""

    def __init__(self, path: str, start: int) -> None:
        self.number = 0  # of the last line read, counted from the first one read
        self._path, self._start = path, start
        self._raw: BinaryIO | None = None

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        with open_plain(self._path) as (self._raw, file):
            begin = self._find_line(file)
            while line := file.readline(MAX_DOCUMENT + 1):
                self.number += 1
                if len(line) > MAX_DOCUMENT:
                    self.fail(f"this line is longer than {MAX_DOCUMENT >> 20} MiB, the limit of a document")
                yield begin, line
                begin += len(line)

    @property
    def position(self) -> int:
        """Bytes read of the file as stored, before decompression."""
        return self._raw.tell() - self._start if self._raw else 0

    def fail(self, problem: str, number: int | None = None) -> NoReturn:
        """Raise UsageError about a line, by default the last one read."""
        with open(self._path, "rb") as file:
            before = sum(block.count(b"\n") for block in _blocks(file, self._line_start))
        raise UsageError(f"{self._path}:{before + (number or self.number)}: {problem}")

    def _find_line(self, file: BinaryIO) -> int:
        self._line_start = 0
        if self._start:
            file.seek(self._start - 1)
            while (rest := file.readline(MAX_DOCUMENT)) and not rest.endswith(b"\n"):
                pass
            self._line_start = file.tell()
        return self._line_start


def _blocks(file: BinaryIO, num_bytes: int) -> Iterator[bytes]:
    while num_bytes > 0 and (block := file.read(min(num_bytes, 2**20))):
        num_bytes -= len(block)
        yield block
