"""Find the job of a run: by its comment, because a controller that lost its state gives out old ids again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from fsdpctl.backends.slurm.job.scontrol import SlurmError
from fsdpctl.backends.slurm.job_refs import read_owners
from fsdpctl.backends.slurm.queue import POLL_S, Queue, QueuedJob
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import LaunchError

queue = Queue()

T = TypeVar("T")


class NoAnswerError(LaunchError):
    """The controller does not answer, or its commands are missing here."""


def living_job(run: RunPaths) -> QueuedJob | None:
    """Ask Slurm now for the queued or running job of the run. Raise NoAnswerError."""
    return living_jobs([run]).get(run)


def living_jobs(runs: Sequence[RunPaths]) -> dict[RunPaths, QueuedJob]:
    """Ask Slurm now, once, for the queued and running jobs of these runs. Raise NoAnswerError."""
    try:
        queue.refresh()
        jobs = queue.jobs()
    except SlurmError as error:
        raise NoAnswerError(f"Slurm does not answer: {error}") from error
    newest = {run: newest_job(run, jobs) for run in runs}
    return {run: job for run, job in newest.items() if job is not None and not job.is_over}


def newest_job(run: RunPaths, jobs: Sequence[QueuedJob]) -> QueuedJob | None:
    """Return of the run's jobs one that is alive, else the last one."""
    owners = read_owners(run)
    own = sorted((job for job in jobs if job.owner in owners), key=lambda job: (not job.is_over, job.submitted))
    return own[-1] if own else None


def wait_for(condition: Callable[[], T], limit_s: float) -> T:
    """Call `condition` until it returns something true or time is up; return its last value."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return found
