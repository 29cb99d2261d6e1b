"""The text of a user's file."""

from __future__ import annotations

import codecs
from io import BufferedReader
from pathlib import Path

from fsdpctl.contract.files import NO_FILE, open_file
from fsdpctl.errors import UsageError
from fsdpctl.schema.problems import Location, fail, one_line

MAX_BYTES = 1_000_000


def read_text(path: Path, what: str) -> str:
    """Return the text of a user's file. Raise UsageError or SpecError for a file that is no text of a usual size."""
    source = one_line(str(path))
    subject, start = f"{what} {source}", Location(source, 1)
    data = _read_bytes(path, source, what)
    if data.startswith(codecs.BOM_UTF8):
        fail(subject, start, "starts with a byte order mark; save the file as UTF-8 without one")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        fail(subject, start.at(line), f"byte 0x{data[error.start]:02X} is not UTF-8; save the file as UTF-8")


def _read_bytes(path: Path, source: str, what: str) -> bytes:
    try:
        with BufferedReader(open_file(path)) as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        if error.errno == NO_FILE:
            raise UsageError(f"{source}: not a file; a {what} is one text file") from None
        raise UsageError(f"{source}: cannot read this {what}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"{source}: larger than {MAX_BYTES:,} bytes; a {what} has a few lines")
    return data
