"""Several things at once, in threads that nobody waits for when the process ends."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

T = TypeVar("T")


def attempt(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """The value of `work`, or what it raised, to be raised elsewhere."""
    try:
        return work(), None
    except Exception as error:
        return None, error


def begin(work: Callable[[], T]) -> Callable[[], T]:
    """Do it in a thread. The function that is returned waits for it, and returns or raises what came of it."""
    results: list[tuple[T | None, Exception | None]] = []
    thread = threading.Thread(target=lambda: results.append(attempt(work)), daemon=True)
    thread.start()

    def wait() -> T:
        thread.join()
        value, error = results[0]
        if error is not None:
            raise error
        return cast(T, value)

    return wait


def at_once(works: Sequence[Callable[[], T]]) -> list[T]:
    """Do all of it, the first here and each other in a thread; return the values, or raise what the first of those that
    failed raised.

    Memory that a thread has freed may stay with it, so one thing alone gets none. And no executor, whose threads Python
    waits for at its end: a rank that fails must not wait for a disk.
    """
    results: list[tuple[T | None, Exception | None]] = [(None, None)] * len(works)

    def run(index: int) -> None:
        results[index] = attempt(works[index])

    threads = [threading.Thread(target=run, args=(index,), daemon=True) for index in range(1, len(works))]
    for thread in threads:
        thread.start()
    if works:
        run(0)
    for thread in threads:
        thread.join()
    for _, error in results:
        if error is not None:
            raise error
    return [cast(T, value) for value, _ in results]
