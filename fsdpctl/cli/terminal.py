"""What fits a terminal: its width, lines that end at a word, and colours, which only repeat a word."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from typing import TextIO

_RED, _GREEN, _YELLOW, _CYAN = 31, 32, 33, 36
_COLORS = {
    **dict.fromkeys(("FAILED", "LOST", "BROKEN", "fail"), _RED),
    **dict.fromkeys(("SUCCEEDED", "ok"), _GREEN),
    **dict.fromkeys(("QUEUED", "RESTARTING", "STOPPED", "CANCELLED", "warn"), _YELLOW),
    "RUNNING": _CYAN,
}
_SHORT = 2
"""Blanks in the longest part of a line that is no sentence: `loss not finite`."""
_COLUMNS = 80
_COLORED = re.compile(rf"\b({'|'.join(_COLORS)})\b")


def paint(text: str, stream: TextIO | None = None) -> str:
    """Return the text with its first state or result in colour, if the stream (stderr) is a terminal with colours."""
    if not has_color(stream or sys.stderr):
        return text
    return _COLORED.sub(lambda found: f"\x1b[{_COLORS[found[0]]}m{found[0]}\x1b[0m", text, count=1)


def has_color(stream: TextIO) -> bool:
    """Return whether the stream is a terminal with colours."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def room(stream: TextIO | None = None) -> int:
    """Return the columns of the stream's (stdout's) terminal: $COLUMNS where it is set, and 80 without a terminal."""
    wanted = os.environ.get("COLUMNS", "")
    if wanted.isdecimal() and int(wanted):
        return int(wanted)
    try:
        return os.get_terminal_size((stream or sys.stdout).fileno()).columns or _COLUMNS
    except OSError:
        return _COLUMNS


def fit(text: str, columns: int) -> str:
    """Return as many parts of the text, which two blanks separate, as fit into these columns; of a sentence its words.

    A single word that does not fit is cut.
    """
    shown = ""
    for part in text.split("  "):
        pieces = part.split(" ") if part.count(" ") > _SHORT else [part]
        for number, piece in enumerate(pieces):
            longer = f"{shown}{' ' if number else '  ' if shown else ''}{piece}"
            if width(longer) > columns:
                return shown or _cut(piece, columns)
            shown = longer
    return shown


def _cut(word: str, columns: int) -> str:
    while width(word) > columns:
        word = word[:-1]
    return word


def width(text: str) -> int:
    """Return the columns of the text: East Asian characters take two, those that combine none."""
    return sum(_width(character) for character in text)


def _width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
