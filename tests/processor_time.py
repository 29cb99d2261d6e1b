"""What work costs in processor time, on a shared host where the same work takes up to four times as long at times.

None takes less than its work does, so a bound is on the minimum of several tries.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")
TRIES = 20


def done_within(limit_s: float, work: Callable[[], Result]) -> Result:
    """Return the result of `work` as soon as a try takes less than `limit_s` seconds of this process.

    Raises:
        AssertionError: each try takes longer.
    """
    least = float("inf")
    for _ in range(TRIES):
        began = time.process_time()
        result = work()
        least = min(least, time.process_time() - began)
        if least < limit_s:
            return result
    raise AssertionError(f"it takes {least:.3f} s of processor time, not {limit_s} s")


def is_cheap(ours: list[str], theirs: list[str], limit: float, env: dict[str, str]) -> bool:
    """Return if a command takes less than `limit` times the processor time of another one, the minimum of each."""
    most = limit * min(_of_command(theirs, env) for _ in range(TRIES // 2))
    return any(_of_command(ours, env) < most for _ in range(TRIES))


def _of_command(argv: list[str], env: dict[str, str]) -> float:
    """Processor time of a command and of all its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
