"""The begin and the end of attempts in a Slurm allocation, which a full disk must not end with a traceback."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import preallocate
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import Allocation
from fsdpctl.runs.events import record_verdict
from fsdpctl.runs.evidence import attempt_end, newest_step, read_verdict
from fsdpctl.runs.store import claim_attempt
from fsdpctl.supervise.decide import Verdict, judge

T = TypeVar("T")

DISK_TRIES, DISK_PAUSE_S = 30, 10.0
"""For a disk on which no attempt can begin: nodes that are held should not wait for long."""


def patiently(begin: Callable[[], T]) -> T | None:
    """Do what an attempt needs before it can begin; None where the disk stays full, or away, for too long."""
    for _ in range(DISK_TRIES):
        try:
            return begin()
        except OSError as error:
            log(f"no attempt can begin: {error}")
        time.sleep(DISK_PAUSE_S)
    return None


def begin_attempt(run: RunPaths, allocation: Allocation) -> AttemptPaths:
    """Make the next attempt's directory, with what its agents need there. Raises OSError, and leaves nothing then."""
    attempt = claim_attempt(run)
    try:
        write_json(attempt.allocation, allocation)
        preallocate(attempt.stop)
    except OSError:
        shutil.rmtree(attempt.root, ignore_errors=True)  # it would look like one that was lost
        raise
    return attempt


def close_open_attempts(run: RunPaths, num_nodes: int, first_attempt: int) -> None:
    """Judge the attempts that ended with their whole allocation, before anybody here could."""
    for attempt in run.attempts():
        if read_verdict(attempt) is None and attempt.allocation.exists():
            verdict = judge(attempt_end(attempt, num_nodes))
            if attempt.number >= first_attempt and verdict.state not in (State.SUCCEEDED, State.CANCELLED):
                reason = f"ended by Slurm and requeued; {verdict.reason}"
                verdict = Verdict(State.STOPPED, reason, restart=True)
            record(attempt, replace(verdict, step=newest_step(run)))


def record(attempt: AttemptPaths, verdict: Verdict) -> None:
    """Judge an attempt for good. On a full disk only in words: whoever looks next judges it anew."""
    try:
        record_verdict(attempt, verdict)
    except OSError as error:
        log(f"attempt {attempt.number} is {verdict.state}: {verdict.reason}; not written down: {error}")


def log(text: str) -> None:
    """Into batch.log, unless its disk is full. Unbuffered: what is left in a buffer would spoil the exit code."""
    with suppress(OSError):
        os.write(sys.stdout.fileno(), f"{text}\n".encode(errors="backslashreplace"))
