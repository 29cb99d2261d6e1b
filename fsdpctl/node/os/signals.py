"""Schedulers send TERM, USR1 or USR2 to request a stop, some to every process of a job at once.

The agent creates the stop file when it gets one. torchrun must ignore them, because it would end its workers unsaved,
and a rank must survive them to see the stop file, even if its script handles no signals.
"""

from __future__ import annotations

import os
import signal
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

DUMP_SIGNAL = signal.SIGRTMIN
"""Makes a rank write the stacks of all its threads; no library uses this signal."""
FLIGHT_SIGNAL = signal.SIGRTMIN + 1
"""Makes a rank write its flight record."""


def ignore() -> None:
    """Ignore the stop signals: in torchrun, and in ranks until they call `handle_as_rank`."""
    for number in STOP_SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def handle_as_rank() -> None:
    """Set a rank's handlers of the stop signals: under Slurm they do nothing, elsewhere they end it, as usual.

    An empty handler, reset in forked children, because an ignored signal would be inherited by all of them.
    """
    handler = _do_nothing if "SLURM_JOB_ID" in os.environ else signal.SIG_DFL
    for number in STOP_SIGNALS:
        signal.signal(number, handler)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it
    os.register_at_fork(after_in_child=_restore_defaults)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _restore_defaults() -> None:
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
