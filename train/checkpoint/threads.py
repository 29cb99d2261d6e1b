"""Work in threads that the end of the process does not wait for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TypeVar, cast

from train.parallel.world import capture

T = TypeVar("T")


def start_in_thread(work: Callable[[], T]) -> Callable[[], T]:
    """Run `work` in a thread. The function that is returned waits for it, and returns its value or raises its error."""
    results: list[tuple[T | None, Exception | None]] = []
    thread = threading.Thread(target=lambda: results.append(capture(work)), daemon=True)
    thread.start()

    def wait() -> T:
        thread.join()
        value, error = results[0]
        if error is not None:
            raise error
        return cast(T, value)

    return wait


def run_in_threads(works: Sequence[Callable[[], T]]) -> list[T]:
    """Run all at once, the first here and each other in a thread; return the values, or raise the first error.

    Memory that a thread has freed may stay with it, so a single one gets no thread. And no executor, whose threads
    Python waits for at its end: a rank that fails must not wait for a disk.
    """
    results: list[tuple[T | None, Exception | None]] = [(None, None)] * len(works)

    def run(index: int) -> None:
        results[index] = capture(works[index])

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
