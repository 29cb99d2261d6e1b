"""All output: data to stdout, messages to stderr, control characters escaped."""

from __future__ import annotations

import io
import json
import os
import re
import select
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TextIO

from fsdpctl.cli import terminal
from fsdpctl.errors import FsdpctlError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# C0 and C1 controls, DEL, and what is invisible: characters without width, which hide in names, and those that reorder
# the text on a screen. The selectors of emoji stay.
_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ud800-\udfff\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e01ef]"
)

GAP = "  "
KEY_WIDTH = 11
MIN_ROOM = 20  # below, a column of wrapped lines is worse than the terminal's own line breaks


class BrokenPipe(BaseException):
    """The reader of the output, like `head`, has exited: no failure, and not to be caught on the way, like Ctrl-C."""


class Outlet(io.FileIO):
    """A standard stream that raises BrokenPipe: Typer, Rich and Python each handle a broken pipe in another way.

    Unbuffered: Python would write the rest of a buffer again at its exit, and fail again.
    """

    def write(self, data: ReadableBuffer, /) -> int:
        view = memoryview(data)
        done = 0
        while done < view.nbytes:
            try:
                done += os.write(self.fileno(), view[done:])
            except BrokenPipeError:
                raise BrokenPipe from None
            except BlockingIOError:  # another process with this terminal or pipe made it non-blocking
                select.select([], [self], [])
            except OSError as error:
                name = "standard error" if self.fileno() == 2 else "standard output"
                raise FsdpctlError(f"{name} cannot be written: {error.strerror}") from None
        return done


def open_outlet(stream: TextIO) -> TextIO:
    """Return the stream as an outlet; characters that the locale cannot write are escaped."""
    outlet = Outlet(stream.fileno(), "w", closefd=False)
    return io.TextIOWrapper(outlet, encoding=stream.encoding, errors="backslashreplace", line_buffering=True)


def safe(text: str) -> str:
    """Return `text` with control characters written as escapes; tab and newline stay."""
    return _UNSAFE.sub(lambda found: ascii(found[0])[1:-1], text)


def log(text: str) -> None:
    """Write a message to stderr."""
    write(safe(text), sys.stderr)


def print_data(text: str) -> None:
    """Write data to stdout."""
    write(safe(text))


def print_json(value: Any) -> None:
    """Write data as JSON to stdout; dataclasses as objects."""
    from fsdpctl.contract.codec import encode

    write(json.dumps(encode(value), indent=2))


def write(text: str, stream: TextIO | None = None) -> None:
    """Write lines unescaped, to stdout by default."""
    stream = stream or sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def print_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Write rows as aligned columns to stdout. Only the last column may be long.

    A terminal gets lines that end at a word: of the last column, or of the whole row where that is too wide.
    """
    cells = [[safe(cell).replace("\n", " ") for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)][:-1]
    lines = []
    for *front, last in cells:
        start = "".join(cell.ljust(width) + GAP for cell, width in zip(front, widths, strict=True))
        lines.append(_beside(start, last, indent=2))
    write("\n".join(lines))


def print_beside(start: str, text: str) -> None:
    """Write one line to stdout: columns that are filled already, and a text that a terminal may wrap."""
    write(_beside(safe(start), safe(text).replace("\n", " "), indent=2))


def print_json_line(value: Any) -> None:
    """Write one object to stdout as a line of JSON."""
    from fsdpctl.contract.codec import encode

    write(json.dumps(encode(value)))


def print_rows(rows: Sequence[tuple[str, str]]) -> None:
    """Write keys with their values to stdout, the values in a column of their own."""
    lines = []
    for key, value in rows:
        first, *rest = safe(value).split("\n")
        lines.append(_beside(f"{key:<{KEY_WIDTH}}", first, indent=KEY_WIDTH))
        lines += [_beside(" " * KEY_WIDTH, line, indent=KEY_WIDTH) for line in rest]
    write("\n".join(lines))


def _beside(start: str, text: str, indent: int) -> str:
    """Return the text after its start, wrapped in its own column on a terminal; below, by `indent`, where that is too
    narrow."""
    line = (start + text).rstrip()
    if not sys.stdout.isatty():  # a pipe gets lines of any length, for `grep`
        return line
    room = terminal.room()
    if len(line) > room:
        if room - len(start) >= MIN_ROOM:
            line = start + ("\n" + " " * len(start)).join(_wrap(text, room - len(start)))
        else:
            line = ("\n" + " " * indent).join(_wrap(line, max(room - indent, 1)))
    return terminal.paint(line, sys.stdout)


def _wrap(text: str, room: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False)  # a path is not split
