"""Stopping: a signal or the stop file requests it, all ranks agree, and all leave after the same step.

A handler only records the time; a save inside of one could interrupt a collective. One rank of each node reads the stop
file. All ranks agree at every step boundary, and one request is enough. The grace runs from the first request; at its
end the launcher, or a scheduler that preempts, ends all ranks by force.
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
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.formats.manifest import save_fits

if TYPE_CHECKING:
    from train.parallel.world import World  # imports torch, and the handlers must be installed before that

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
REASONS = tuple(StopReason)  # the later one wins where ranks got different ones


@dataclass(frozen=True)
class Stop:
    """A stop that all ranks have agreed on."""

    reason: StopReason
    requested: float  # when, by this rank's monotonic clock
    grace_s: float  # endless where no launcher waits

    def left_s(self) -> float:
        """Return the seconds left of the grace."""
        return max(0.0, self.requested + self.grace_s - time.monotonic())

    def has_time_for(self, save_s: float) -> bool:
        """Return whether a save that took `save_s` seconds the last time fits into the rest of the grace."""
        return save_fits(save_s, self.left_s())


class Stopper:
    """Receives the requests to stop this run: signals, and the stop file."""

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
        self.requested: float | None = None  # when, for the first time
        self.last_look = time.monotonic()
        for number in SIGNALS:
            signal.signal(number, self._on_signal)

    def agree(self, world: World) -> Stop | None:
        """Return the stop that any rank was asked for; None where there is none. Collective, the same on every rank."""
        own = self._own_reason()
        number = world.maximum(REASONS.index(own) + 1 if own else 0)
        if not number:
            return None
        now = time.monotonic()
        waited_ms = world.maximum(int(1000 * (now - self.requested)) if self.requested else 0)
        reason = REASONS[number - 1]
        grace_s = self.preempt_grace_s if reason is StopReason.PREEMPT else self.grace_s
        return Stop(reason, now - waited_ms / 1000, grace_s)

    def _own_reason(self) -> StopReason | None:
        now = time.monotonic()
        since_last, self.last_look = now - self.last_look, now
        if self.stop_file is not None and (reason := read_stop_reason(self.stop_file)):
            # It was not there at the last look: so much is sure, whatever the file server's clock shows.
            self.requested = self.requested or now - min(since_last, _age_s(self.stop_file))
            return reason
        return StopReason.PREEMPT if self.signalled else None

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.abort_file is not None and self.abort_file.exists():  # not a request to save, but the end
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.signalled, self.requested = True, self.requested or time.monotonic()


def _age_s(path: Path) -> float:
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return math.inf


def read_stop_reason(path: Path) -> StopReason | None:
    """Return the reason in the stop file, the first one; one that is not known counts as a user's.

    None: there is no file, or the file server does not answer now, which must not end a run; the next step asks again.
    """
    try:
        request = read_control_file(path)
    except OSError:
        return None
    if request is None:
        return None
    first = request.earlier or request
    return StopReason(first.cause) if first.cause in REASONS else StopReason.USER
