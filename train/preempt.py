"""Stopping: a signal or the stop file asks for it, all ranks agree, and all leave after the same step.

A handler only notes the time; saving inside of one would meet half-done collectives. One rank of each node looks at the
stop file. The question is put to all ranks at every step boundary, and one yes is enough. From the moment of the first
one the grace runs, at the end of which the launcher, or a scheduler that preempts, ends all ranks by force.
"""

from __future__ import annotations

import math
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from fsdpctl.contract import StopReason
from fsdpctl.contract.formats.manifest import save_fits

if TYPE_CHECKING:
    from train.parallel.world import World  # imports torch, and the handlers must stand before that

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
WORDS = tuple(StopReason)  # the later word wins where ranks were told different ones


@dataclass(frozen=True)
class Stop:
    """A stop that all ranks have agreed on."""

    word: StopReason
    asked: float  # when, by this rank's monotonic clock
    grace_s: float  # endless where no launcher waits

    def left_s(self) -> float:
        return max(0.0, self.asked + self.grace_s - time.monotonic())

    def has_time_for(self, save_s: float) -> bool:
        return save_fits(save_s, self.left_s())


class Stopper:
    """Knows whether this run was asked to stop, and when."""

    def __init__(
        self,
        stop_file: Path | None,
        grace_s: float | None = None,
        preempt_grace_s: float | None = None,
        abort_file: Path | None = None,
    ) -> None:
        self.stop_file, self.abort_file = stop_file, abort_file
        self.grace_s = math.inf if grace_s is None else grace_s
        self.preempt_grace_s = self.grace_s if preempt_grace_s is None else preempt_grace_s
        self.signalled = False
        self.asked: float | None = None  # when, for the first time
        self.last_look = time.monotonic()
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def agree(self, world: World) -> Stop | None:
        """Ask all ranks; every rank gets the same answer."""
        heard = self._heard()
        answer = world.maximum(WORDS.index(heard) + 1 if heard else 0)
        if not answer:
            return None
        now = time.monotonic()
        waited_ms = world.maximum(int(1000 * (now - self.asked)) if self.asked else 0)
        word = WORDS[answer - 1]
        grace_s = self.preempt_grace_s if word is StopReason.PREEMPT else self.grace_s
        return Stop(word, now - waited_ms / 1000, grace_s)

    def _heard(self) -> StopReason | None:
        now = time.monotonic()
        since_last, self.last_look = now - self.last_look, now
        if self.stop_file is not None and (word := read_stop_reason(self.stop_file)):
            # It was not there at the last look: so much is sure, whatever the file server's clock says.
            self.asked = self.asked or now - min(since_last, _age_s(self.stop_file))
            return word
        return StopReason.PREEMPT if self.signalled else None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.abort_file is not None and self.abort_file.exists():  # no wish to save, but the end
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.signalled, self.asked = True, self.asked or time.monotonic()


def _age_s(path: Path) -> float:
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return math.inf


def read_stop_reason(path: Path) -> StopReason | None:
    """The first word of the stop file; a file that says nothing known is a user's wish. None: there is no file, or a
    file server does not answer for it now, which shall not end a run; the next step asks again."""
    try:
        words = path.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return None
    return StopReason(words[0]) if words and words[0] in WORDS else StopReason.USER
