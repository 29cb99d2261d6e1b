"""The output edge: data to stdout, talk to stderr, and nothing foreign reaches a terminal unescaped."""

from __future__ import annotations

import io
import json
import os
import re
import select
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from fsdpctl.errors import FsdpctlError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# C0 and C1 controls, DEL, and the bidirectional controls that can reorder what a person reads.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

GAP = "  "
MIN_ROOM = 20  # below, a column of broken lines is worse than a terminal's own breaks


class BrokenPipe(BaseException):
    """Whoever read the output has left, like `head`: no failure, and like Ctrl-C nothing to be handled on the way."""


class Outlet(io.FileIO):
    """A standard stream that raises BrokenPipe. Of a broken pipe Typer, Rich and Python each make something else.

    Without a buffer: Python would write what is left in it once more at its end, and fail again.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        done = 0
        while done < view.nbytes:
            try:
                done += os.write(self.fileno(), view[done:])
            except BrokenPipeError:
                raise BrokenPipe from None
            except BlockingIOError:  # who else has this terminal or pipe has made it so
                select.select([], [self], [])
            except OSError as error:
                name = "standard error" if self.fileno() == 2 else "standard output"
                raise FsdpctlError(f"{name} cannot be written: {error.strerror}") from None
        return done


def open_outlet(stream: TextIO) -> TextIO:
    """The same stream as an outlet; what the locale cannot write is escaped."""
    outlet = Outlet(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(outlet, encoding=stream.encoding, errors="backslashreplace", line_buffering=True)


def safe(text: str) -> str:
    """Return `text` with control characters written as escapes; tab and newline stay."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


def log(text: str) -> None:
    """Talk to the person: stderr."""
    write(safe(text), sys.stderr)


def print_data(text: str) -> None:
    """Give data: stdout."""
    write(safe(text))


def print_json(value: Any) -> None:
    """Give data as JSON: stdout."""
    write(json.dumps(value, indent=2))


def write(text: str, stream: TextIO | None = None) -> None:
    """Write lines as they are, to stdout unless told otherwise."""
    stream = stream or sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Give rows as aligned columns: stdout. Only the last column may be long; a terminal breaks it within itself."""
    cells = [[safe(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    indent = sum(width + len(GAP) for width in widths)
    room = _room() - indent
    table = []
    for *front, last in cells:
        start = "".join(cell.ljust(width) + GAP for cell, width in zip(front, widths, strict=True))
        lines = _broken(last, room) if len(last) > room >= MIN_ROOM else [last]
        table.append((start + ("\n" + " " * indent).join(lines)).rstrip())
    write("\n".join(table))


def _room() -> int:
    """Columns of the terminal; a pipe takes lines of any length, for `grep`."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize


def _broken(text: str, room: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)  # a path stays whole
