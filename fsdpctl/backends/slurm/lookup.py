"""Find the job of a run: by its comment, because a controller that lost its state gives out old ids again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from fsdpctl.backends.slurm.job.scontrol import SlurmError
from fsdpctl.backends.slurm.job_refs import read_owners, read_ref
from fsdpctl.backends.slurm.queue import POLL_S, Queue, QueuedJob
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError, RefusedError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.store import read_record

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


def find_after_job(plan: LaunchPlan) -> str | None:
    """Return the job of the run that must succeed before this one; None without such a run, or if it has succeeded.

    A requeue keeps the id of a job. Raise RefusedError if Slurm cannot wait for that run.
    """
    if plan.after is None or RunFacts(RunPaths.of(plan.after.run_dir)).final_state is State.SUCCEEDED:
        return None
    assert plan.slurm is not None
    if (job_id := _find_job_id(RunPaths.of(plan.after.run_dir))) is None:
        text = f"Slurm cannot wait for run {plan.after.run_id}: it has no Slurm job of its own"
        raise RefusedError(text, hint="submit this one when that run has succeeded")
    if any(option.startswith("--dependency") for option in plan.slurm.options):
        raise RefusedError("the profile has a dependency of its own", hint="leave out --after, or extra.dependency")
    return job_id


def _find_job_id(run: RunPaths) -> str | None:
    """Return the id of the job of a run's newest submission; None if it has no job of its own.

    Ask Slurm where a killed submit has not stored the id.
    """
    ref = read_ref(run)
    if ref is None or ref.is_interactive or ref.submission < len(read_record(run).submissions):
        return None
    if ref.job_id is not None:
        return ref.job_id
    job = living_job(run)
    return job.job_id if job is not None else None
