"""Schedulers send TERM, USR1 or USR2 to request a stop, some to every process of a job at once.

The agent creates the stop file when it gets one. torchrun must ignore them, because it would end its workers unsaved,
and a rank must survive them to see the stop file, even if its script handles no signals.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType

STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)

DUMP_SIGNAL = signal.SIGRTMIN
"""Makes a rank write the stacks of all its threads; no library uses this signal, nor the next ones."""
FLIGHT_SIGNAL = signal.SIGRTMIN + 1
"""Makes a rank write its flight record."""
FORCED_DUMP_SIGNAL = signal.SIGRTMIN + 2
"""Makes a rank that answers no DUMP_SIGNAL write the stack of its main thread. It may crash one that is well."""

answering_threads: set[int | None] = set()
"""The threads of `start_answering`, which are no part of what a rank does."""


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


def survive_term() -> None:
    """Do nothing at TERM, in place of a library's handler that does not wait for the other ranks: the stop file is
    what they all see."""
    signal.signal(signal.SIGTERM, _do_nothing)


def start_answering(number: int, answer: Callable[[], None], name: str) -> None:
    """Call `answer` at each signal `number`, in a thread that does nothing else.

    Call this before there are other threads: they inherit that the signal is blocked, so only this one gets it.
    """

    def work() -> None:
        while True:
            signal.sigwait({number})
            answer()

    signal.signal(number, _do_nothing)  # by default it ends a process; ignored, it would be so in children
    signal.pthread_sigmask(signal.SIG_BLOCK, {DUMP_SIGNAL, FLIGHT_SIGNAL})  # both, in the thread of the other, too
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    answering_threads.add(thread.ident)


def _do_nothing(number: int, frame: FrameType | None) -> None:
    pass


def _restore_defaults() -> None:
    for number in STOP_SIGNALS:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.SIG_DFL)
