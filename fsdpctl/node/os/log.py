"""The log of a process without a terminal: its standard output."""

from __future__ import annotations

import os
import sys
from contextlib import suppress


def log(text: str) -> None:
    """Write a line to standard output, unless its disk is full or fails. Unbuffered: a buffer that cannot be flushed
    would change the exit code."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), f"{text}\n".encode(errors="backslashreplace"))
