"""Bytes as they arrive, to lines of text that are safe to keep."""

from __future__ import annotations

LIMIT = 65_536
"""Longest line in bytes; the rest of it is dropped. Whole tracebacks in one line and 10 kB prints fit."""

_MARK = f" ... [line cut at {LIMIT} bytes]"


class LineSplitter:
    """Hold half a line until its end comes, however the bytes were cut; memory stays below a few LIMITs."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, block: bytes) -> list[str]:
        """Return the lines that `block` completes."""
        *whole, held = (self._held + block).split(b"\n")
        if len(held) > LIMIT:
            # One byte over the limit is kept, so that the line is still known to be too long.
            held = _last_state(held)[: LIMIT + 1] + (b"\r" if held.endswith(b"\r") else b"")
        self._held = held
        return [_to_text(raw) for raw in whole]

    def end(self) -> list[str]:
        """Return the half line that nobody will complete, if there is one."""
        held, self._held = self._held, b""
        return [_to_text(held)] if held else []


def _last_state(raw: bytes) -> bytes:
    """Return what a terminal would still show of a line that a progress bar rewrote with carriage returns."""
    return raw.rstrip(b"\r").rpartition(b"\r")[2]


def _to_text(raw: bytes) -> str:
    if b"\r" in raw:
        raw = _last_state(raw)
    if len(raw) > LIMIT:
        return raw[:LIMIT].decode(errors="backslashreplace") + _MARK
    return raw.decode(errors="backslashreplace")
