"""The same act on many hosts: a window of them at a time, one result each, and a dead host is one line.

sshd drops connections at random once ten are half open (MaxStartups 10:30:100), so many at once from one machine to
one gateway need a window and a retry that does not come back in step with the others.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Generic, TypeVar

WINDOW = 32
TRIES = 6
FIRST_PAUSE_S = 0.3

I = TypeVar("I")  # noqa: E741
T = TypeVar("T")


class HostError(Exception):
    """What went wrong with one host, in one line.

    `passing` says that time may heal it (no route, time-out), unlike a wrong key; `dropped` that trying again at
    once is right, because sshd had too much to do.
    """

    def __init__(self, message: str, *, passing: bool = False, dropped: bool = False) -> None:
        super().__init__(message)
        self.passing, self.dropped = passing or dropped, dropped


def explain_exit(code: int, stdout: str, stderr: str, python: str) -> str:
    """Why a program of ours, for `python`, gave no answer on a host: what is left are its code and its last words."""
    if code == 127:
        return f"the profile's python does not exist there: {python}"
    said = (stderr.strip() or stdout.strip()).splitlines()
    return f"exit code {code}: {said[-1] if said else 'it said nothing'}"


@dataclass(frozen=True)
class HostResult(Generic[I, T]):
    """What came of one host: `value`, or `error`."""

    item: I
    value: T | None = None
    error: HostError | None = None


def fan_out(items: Sequence[I], act: Callable[[I], T], window: int = WINDOW) -> list[HostResult[I, T]]:
    """Do `act` for every item, at most `window` at a time; results in the order of the items."""

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
    """Call again what was dropped, after a growing pause of random length."""
    pause = FIRST_PAUSE_S
    for _ in range(TRIES - 1):
        try:
            return act()
        except HostError as error:
            if not error.dropped:
                raise
        sleep(pause * random.uniform(0.5, 1.5))
        pause *= 2
    return act()
