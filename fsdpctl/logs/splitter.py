"""Split a stream of bytes into lines of text of limited length."""

from __future__ import annotations

LIMIT = 65_536
"""Maximum length of a line in bytes; the rest is dropped. Enough for a traceback on one line or a 10 kB print."""

_MARK = f" ... [line cut at {LIMIT} bytes]"


class LineSplitter:
    """Holds a partial line until its newline arrives; memory stays below a few LIMITs."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, block: bytes) -> list[str]:
        """Return the lines that `block` completes."""
        *whole, held = (self._held + block).split(b"\n")
        if len(held) > LIMIT:
            # One byte over the limit is kept to remember that the line is too long.
            held = _last_state(held)[: LIMIT + 1] + (b"\r" if held.endswith(b"\r") else b"")
        self._held = held
        return [_to_text(raw) for raw in whole]

    def end(self) -> list[str]:
        """Return the partial line at the end of the stream, if there is one."""
        held, self._held = self._held, b""
        return [_to_text(held)] if held else []


def _last_state(raw: bytes) -> bytes:
    """Return what a terminal would show of a line that a progress bar rewrote with carriage returns."""
    return raw.rstrip(b"\r").rpartition(b"\r")[2]


def _to_text(raw: bytes) -> str:
    if b"\r" in raw:
        raw = _last_state(raw)
    if len(raw) > LIMIT:
        return raw[:LIMIT].decode(errors="backslashreplace") + _MARK
    return raw.decode(errors="backslashreplace")
