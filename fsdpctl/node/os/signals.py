"""Schedulers send TERM, USR1 or USR2 to ask for a stop, some to every process of a job at once.

The agent makes the stop file of them. torchrun must not hear them, because it would end its workers unsaved, and a
rank must live on to see the stop file even when it handles no signals.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

DUMP_SIGNAL = signal.SIGRTMIN
"""A rank writes the stacks of all its threads when it comes; no library here uses it."""


def ignore() -> None:
    """For torchrun, and through it for ranks until they stand."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def take() -> None:
    """For a rank: under Slurm nothing happens by default; elsewhere TERM ends it, as usual.

    A handler that does nothing, and not in forked children: an ignored signal would pass on to all that it starts.
    """
    handler = _hear_nothing if "SLURM_JOB_ID" in os.environ else signal.SIG_DFL
    for number in STOP_SIGNALS:
        signal.signal(number, handler)
    os.register_at_fork(after_in_child=_give_back)


def _hear_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _give_back() -> None:
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is _hear_nothing:
            signal.signal(number, signal.SIG_DFL)
