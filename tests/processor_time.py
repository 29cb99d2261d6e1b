"""What work costs in processor time, on a shared host where the same work takes up to four times as long at times.

None takes less than its work does, so a bound is on the minimum of several tries.
"""

from __future__ import annotations

import resource
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")
Command = Sequence[str | Path]
TRIES = 20
IN_A_ROW = 3


def done_within(limit_s: float, work: Callable[[], Result], clock: Callable[[], float] = time.process_time) -> Result:
    """Return the result of `work` as soon as a try takes less than `limit_s` seconds of the processor.

    Raises:
        AssertionError: each try takes longer.
    """
    least = float("inf")
    for _ in range(TRIES):
        began = clock()
        result = work()
        least = min(least, clock() - began)
        if least < limit_s:
            return result
    raise AssertionError(f"it takes {least:.3f} s of processor time, not {limit_s} s")


def command_done_within(limit_s: float, command: Command, env: Mapping[str, str]) -> None:
    """Run a command until it takes less than `limit_s` with all its children. Raises AssertionError as above."""
    done_within(limit_s, lambda: _run(command, env), _of_children)


def command_seconds(command: Command, env: Mapping[str, str]) -> float:
    """Return the processor time of a command and of all its children, the minimum of some tries.

    A try is a few runs one after the other: as long as that of a command which may take a few times as much, for a
    short one is more often left alone by other work.
    """

    def seconds() -> float:
        began = _of_children()
        for _ in range(IN_A_ROW):
            _run(command, env)
        return (_of_children() - began) / IN_A_ROW

    return min(seconds() for _ in range(TRIES // 4))


def _run(command: Command, env: Mapping[str, str]) -> None:
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True, env=env)


def _of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
