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
_KEY = re.compile(rb"\x1b[\[O][0-9;]*.|.", re.DOTALL)


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
        """Return the next key: a character, `up`, `down` or `enter`; empty if none is pressed in time.

        Where the terminal is gone, it is `q`.
        """
        if not self._pressed and select.select([self._file], [], [], limit_s)[0]:
            self._pressed += split_keys(os.read(self._file, 1024)) or ["q"]
        return self._pressed.popleft() if self._pressed else ""


def split_keys(data: bytes) -> list[str]:
    """Return the keys in what a terminal sent; those without a name or character are left out."""
    keys = [_NAMES.get(key) or key.decode("ascii", errors="ignore") for key in _KEY.findall(data)]
    return [key for key in keys if key in _NAMES.values() or (key.isprintable() and key)]
