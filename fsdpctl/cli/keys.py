"""Keys of the terminal as they are pressed."""

from __future__ import annotations

import os
import re
import select
import sys
import termios
import tty
from collections import deque

_NAMES = {b"\x1b[A": "up", b"\x1b[B": "down", b"\x1bOA": "up", b"\x1bOB": "down", b"\r": "enter", b"\n": "enter"}
_KEY = re.compile(rb"\x1b[\[O][0-9;]*.|[\xc0-\xff][\x80-\xbf]+|.", re.DOTALL)
OTHER = "other"
"""A key without a name here, such as PageDown or a letter beyond ASCII."""


class Keyboard:
    """Keys without Enter and without their echo, within its context; Ctrl-C still interrupts."""

    def __init__(self) -> None:
        self._file = sys.stdin.fileno()
        self._pressed: deque[str] = deque()

    def __enter__(self) -> Keyboard:
        self._before = termios.tcgetattr(self._file)
        tty.setcbreak(self._file)
        return self

    def __exit__(self, *_: object) -> None:
        termios.tcsetattr(self._file, termios.TCSADRAIN, self._before)

    def wait(self, limit_s: float) -> str:
        """Return the next key: a character, `up`, `down`, `enter` or OTHER; empty if none is pressed in time.

        Where the terminal is gone, it is `q`.
        """
        if not self._pressed and select.select([self._file], [], [], limit_s)[0]:
            data = os.read(self._file, 1024)
            self._pressed += split_keys(data) if data else ["q"]
        return self._pressed.popleft() if self._pressed else ""


def split_keys(data: bytes) -> list[str]:
    """Return the keys in what a terminal sent."""
    return [_NAMES.get(key) or _character(key) for key in _KEY.findall(data)]


def _character(key: bytes) -> str:
    text = key.decode("ascii", errors="ignore")
    return text if len(text) == 1 and text.isprintable() else OTHER
