"""Do the same on many hosts: a limited number at a time, one result each; a dead host is one error line.

sshd drops connections at random once ten are half open (MaxStartups 10:30:100). So many connections through one
gateway need a limit, and retries after pauses of random length. A small limit of open files makes the window smaller.
"""

from __future__ import annotations

import errno
import random
import resource
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

from fsdpctl.commands.setup_lines import UNUSABLE

WINDOW = 32
TRIES = 6
FIRST_PAUSE_S = 0.3
FILES_PER_HOST, OTHER_FILES = 6, 24
"""Open files of this process: for a connection that is being made, with its pipes to ssh; and for all else."""

I = TypeVar("I")  # noqa: E741
T = TypeVar("T")


class HostError(Exception):
    """The error of one host, in one line.

    `passing`: it may go away by itself (no route, time-out), unlike a wrong key. `dropped`: sshd was busy, try again
    at once.
    """

    def __init__(self, message: str, *, passing: bool = False, dropped: bool = False) -> None:
        super().__init__(message)
        self.passing, self.dropped = passing or dropped, dropped


def explain_exit(code: int, stdout: str, stderr: str, python: str) -> str:
    """Return why a command of fsdpctl failed on a host, from its exit code and the last line that it printed."""
    if code == 127:
        return f"the profile's python does not exist there: {python}"
    if code == UNUSABLE:
        return stderr.strip().splitlines()[-1]
    lines = (stderr.strip() or stdout.strip()).splitlines()
    return f"exit code {code}: {lines[-1] if lines else 'no output'}"


@dataclass(frozen=True)
class HostResult(Generic[I, T]):
    """The result of one host: `value` or `error`."""

    item: I
    value: T | None = None
    error: HostError | None = None


def max_connections() -> int:
    """Return to how many hosts this process can be connected at once, by its limit of open files; at least two."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(2, (limit - OTHER_FILES) // FILES_PER_HOST)


def fan_out(items: Sequence[I], act: Callable[[I], T], window: int = WINDOW) -> list[HostResult[I, T]]:
    """Call `act` with every item, at most `window` at a time; return the results in the order of the items."""
    window = min(window, max_connections())

    def one(item: I) -> HostResult[I, T]:
        try:
            return HostResult(item, retry(lambda: act(item)))
        except HostError as error:
            return HostResult(item, error=error)

    if len(items) <= 1:
        return [one(item) for item in items]
    with ThreadPoolExecutor(max_workers=min(window, len(items)), thread_name_prefix="host") as pool:
        return list(pool.map(one, items))


def retry(act: Callable[[], T], sleep: Callable[[float], None] = time.sleep) -> T:
    """Call `act`, and again after a growing pause of random length while sshd or this process takes no more."""
    pause = FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return act()
        except HostError as error:
            if not error.dropped:
                raise
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
        sleep(pause * random.uniform(0.5, 1.5))
        pause *= 2
    return act()
