"""What `-` means as the file of an option like --out: stdout for text, and an error for what only a file can hold."""

from __future__ import annotations

from pathlib import Path

from fsdpctl.errors import UsageError

_STDOUT = Path("-")


def text_or_stdout(path: Path | None) -> Path | None:
    """Return the file for text; None, as without the option, for `-`."""
    return None if path == _STDOUT else path


def file_only(path: Path | None) -> Path | None:
    """Return the file. Raise UsageError for `-`."""
    if path == _STDOUT:
        raise UsageError("`-` is stdout, where this cannot be written", hint="name a file")
    return path
