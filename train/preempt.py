"""Stopping: a signal or the stop file asks for it, all ranks agree, and all leave after the same step.

A handler only sets a flag; saving inside of one would meet half-done collectives. One rank of each node looks at the
stop file. The question is put to all ranks at every step boundary, and one yes is enough.
"""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fsdpctl.contract import StopWord

if TYPE_CHECKING:
    from .distributed import World  # imports torch, and the handlers must stand before that

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
WORDS = tuple(StopWord)  # the later word wins where ranks were told different ones


class Stopper:
    """Knows whether this run was asked to stop."""

    def __init__(self, stop_file: Path | None) -> None:
        self.stop_file = stop_file
        self.signalled = False
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def agree(self, world: World) -> StopWord | None:
        """Ask all ranks; every rank gets the same answer."""
        word = self._heard()
        answer = world.maximum(WORDS.index(word) + 1 if word else 0)
        return WORDS[answer - 1] if answer else None

    def _heard(self) -> StopWord | None:
        if self.stop_file is not None and (word := read_stop_word(self.stop_file)):
            return word
        return StopWord.PREEMPT if self.signalled else None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signalled = True


def read_stop_word(path: Path) -> StopWord | None:
    """The first word of the stop file; a file that says nothing known is a user's wish. None: there is no file."""
    try:
        words = path.read_text(encoding="utf-8", errors="replace").split()
    except FileNotFoundError:
        return None
    return StopWord(words[0]) if words and words[0] in WORDS else StopWord.USER
