"""The Slurm launcher: submit, observe and end the batch job that supervises a run.

A job belongs to a run by its comment. Ids are not enough: a controller that lost its state reuses them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from fsdpctl.backends.base import View
from fsdpctl.backends.slurm.accounting import Accounts
from fsdpctl.backends.slurm.batch_script import batch_script
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref, find_after_job, read_ref, update_ref
from fsdpctl.backends.slurm.queue import POLL_S, Queue, QueuedJob, explain, view_job
from fsdpctl.backends.slurm.sbatch import UncertainError, sbatch
from fsdpctl.contract import AbortReason, State, StopReason
from fsdpctl.contract.control_files import write_request
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError, LaunchError, RefusedError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.store import read_record

FOUND_WITHIN_S = 20.0
"""How long the job of an sbatch without an answer may take to appear in the queue."""
CANCEL_LIMIT_S = 90.0
"""Slurm's KillWait, 30 s by default, an epilog, and a margin."""
ATTEMPT_LIMIT_S = 30.0
"""From a job's start to its attempt's directory."""

_queue, _accounts = Queue(), Accounts()

T = TypeVar("T")


def start(run: RunPaths, plan: LaunchPlan) -> None:
    """Submit the newest submission once: if an earlier submit was killed after its sbatch, its job is used."""
    submission = len(read_record(run).submissions)
    existing = _living_job(run) if read_ref(run) is not None else None
    append_ref(run, SlurmRef(submission, time.time(), existing.job_id if existing else None))
    if existing is not None:
        return
    try:
        job_id = sbatch(run, batch_script(plan, find_after_job(plan)))
    except UncertainError as error:
        job_id = _find_late(run, error)
    update_ref(run, job_id=job_id)
    _refuse_hopeless(run)


def _refuse_hopeless(run: RunPaths) -> None:
    """Cancel a job that can never start, and raise RefusedError: most clusters queue even those."""
    try:
        job = _living_job(run)
    except LaunchError:  # the job is submitted, and `status` reports what Slurm does with it
        return
    if job is not None and job.never_starts:
        _scancel([job.job_id])
        raise RefusedError(f"Slurm would never start the job: {explain(job.reason)}")


def observe(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    try:
        jobs = _queue.jobs()
    except SlurmError as error:
        return {run.run_id: View("unknown", f"Slurm does not answer: {error}") for run in runs}
    found = {run: _newest_job(run.paths, jobs) for run in runs}
    found |= _find_past_jobs([run for run, job in found.items() if job is None])
    return {run.run_id: _view(run.paths, job) for run, job in found.items()}


def _find_past_jobs(runs: Sequence[RunFacts]) -> dict[RunFacts, QueuedJob]:
    """Return from sacct the jobs that have ended, are forgotten by the controller, and are not recorded in the run."""
    refs = {run: ref for run in runs if not _is_judged(run) and (ref := read_ref(run.paths)) is not None and ref.job_id}
    past = _accounts.jobs([ref.job_id for ref in refs.values() if ref.job_id is not None])
    newest = {run: _newest_job(run.paths, past) for run in refs}
    return {run: job for run, job in newest.items() if job is not None and job.is_over}


def _is_judged(run: RunFacts) -> bool:
    """Return whether the newest submission has its final verdict."""
    newest = run.newest
    if newest is None or newest.number < run.record.submissions[-1].first_attempt:
        return False
    verdict = newest.verdict
    return verdict is not None and not verdict.restart and verdict.state is not State.LOST


def _view(run: RunPaths, job: QueuedJob | None) -> View:
    ref = read_ref(run)
    if job is not None and not job.is_over:
        return view_job(job)
    if ref is not None and ref.final is not None:
        return View("none", ref.reason, ref.final)
    if job is not None:
        return view_job(job)
    if ref is None or ref.job_id is None:
        return View("none")
    return View("none", f"Slurm does not know job {ref.job_id} any more", State.LOST)


def stop(run: RunPaths) -> bool:
    """Ask a running job's attempt to save and exit; remove a waiting job from the queue."""
    job = _living_job(run)
    if job is None:
        return False
    if job.is_waiting:
        _scancel(["--state=PENDING", job.job_id])
        job = _living_job(run)
        if job is None:
            update_ref(run, final=State.STOPPED, reason="stopped (user) while it waited in the queue")
            return True
    attempt = _wait_for(lambda: _open_attempt(run), ATTEMPT_LIMIT_S)
    if attempt is None:
        raise FsdpctlError(f"job {job.job_id} has not begun to train", hint=f"fsdpctl cancel {run.root.name}")
    write_request(attempt.stop, StopReason.USER, "fsdpctl stop")
    return True


def cancel(run: RunPaths) -> bool:
    """Cancel the run's job; agents that see the request in time end their ranks first."""
    job = _living_job(run)
    if job is None:
        return False
    if (attempt := _open_attempt(run)) is not None:
        write_request(attempt.abort, AbortReason.CANCEL, "fsdpctl cancel")
    _scancel([job.job_id])
    if not _wait_for(lambda: _living_job(run) is None, CANCEL_LIMIT_S):
        raise FsdpctlError(f"job {job.job_id} is still there after {CANCEL_LIMIT_S:.0f} s", hint="see `squeue --me`")
    update_ref(run, final=State.CANCELLED, reason="cancelled")
    return True


def _open_attempt(run: RunPaths) -> AttemptPaths | None:
    """Return the newest attempt, if it has no verdict yet."""
    newest = RunFacts(run).newest
    return newest.paths if newest is not None and newest.verdict is None else None


def _living_job(run: RunPaths) -> QueuedJob | None:
    """Ask Slurm now for the queued or running job of the run. Raise LaunchError if Slurm does not answer."""
    try:
        _queue.refresh()
        job = _newest_job(run, _queue.jobs())
    except SlurmError as error:
        raise LaunchError(f"Slurm does not answer: {error}") from error
    return job if job is not None and not job.is_over else None


def _newest_job(run: RunPaths, jobs: Sequence[QueuedJob]) -> QueuedJob | None:
    """Return of the run's jobs one that is alive, else the last one."""
    own = sorted((job for job in jobs if job.run_id == run.root.name), key=lambda job: (not job.is_over, job.submitted))
    return own[-1] if own else None


def _find_late(run: RunPaths, error: UncertainError) -> str:
    job = _wait_for(lambda: _living_job(run), FOUND_WITHIN_S)
    if job is None:
        raise error
    return job.job_id


def _scancel(arguments: list[str]) -> None:
    try:
        ask(["scancel", *arguments], tool_environment())
    except SlurmError as error:
        raise LaunchError(f"Slurm does not cancel: {error}") from error


def _wait_for(condition: Callable[[], T], limit_s: float) -> T:
    """Call `condition` until it returns something true or time is up; return its last value."""
    deadline = time.monotonic() + limit_s
    while not (found := condition()) and time.monotonic() < deadline:
        time.sleep(POLL_S)
    return found
