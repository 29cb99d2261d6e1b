"""Run each piece of work in its own process, some at a time. A pipe returns progress, the result, or the failure.

Not concurrent.futures: its workers outlive a killed parent, and cannot be ended before their piece is done. Here a
worker whose parent is gone gets a broken pipe at its next report and exits.
"""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Generic, TypeVar

from fsdpctl.contract.byte_progress import Report
from fsdpctl.errors import FsdpctlError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class _Done(Generic[R]):
    result: R


def run_all(task: Callable[[T, Report], R], items: Sequence[T], workers: int, report: Report) -> Iterator[R]:
    """Yield the results as they arrive. Raise what a worker raised, after ending the others."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", task.__module__])
    waiting = list(reversed(items))
    running: dict[Connection, BaseProcess] = {}
    try:
        while waiting or running:
            while waiting and len(running) < workers:
                mine, theirs = context.Pipe(duplex=False)
                process: BaseProcess = context.Process(target=_work, args=(task, waiting.pop(), theirs))
                with _interrupt_blocked():
                    process.start()
                theirs.close()
                running[mine] = process
            for pipe in wait(list(running)):
                assert isinstance(pipe, Connection)
                match _receive(pipe, running):
                    case int(num_bytes):
                        report(num_bytes)
                    case _Done(result):
                        yield result
                    case BaseException() as error:
                        raise error
    finally:
        for process in running.values():
            process.kill()
            process.join()


@contextmanager
def _interrupt_blocked() -> Iterator[None]:
    """Block SIGINT here and in what is started: a fork server that still imports would print a traceback."""
    resource_tracker.ensure_running()  # its first start, within that of the fork server, would unblock SIGINT
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _receive(pipe: Connection, running: dict[Connection, BaseProcess]) -> object:
    try:
        return pipe.recv()
    except (EOFError, OSError):  # OSError: it died in the middle of a message
        process = running.pop(pipe)
        process.join()
        if process.exitcode:
            return FsdpctlError(
                f"a worker process ended with exit code {process.exitcode}"
                + (" (killed: out of memory?)" if process.exitcode == -signal.SIGKILL else ""),
                hint="the same command continues where this one stopped; --workers 1 needs the least memory",
            )
        return None


def _work(task: Callable[[T, Report], R], item: T, pipe: Connection) -> None:
    def send(message: object) -> None:
        try:
            pipe.send(message)
        except BrokenPipeError:  # the parent is gone
            sys.exit(1)

    try:
        send(_Done(task(item, send)))
    except Exception as error:
        if not isinstance(error, FsdpctlError):
            error.add_note(traceback.format_exc())
        send(error)
