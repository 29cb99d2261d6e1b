"""What Slurm knows about runs: one query for all of them; sacct only for jobs that the controller has forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fsdpctl.backends.base import View
from fsdpctl.backends.slurm.accounting import Accounts
from fsdpctl.backends.slurm.job.scontrol import SlurmError
from fsdpctl.backends.slurm.job_refs import read_ref
from fsdpctl.backends.slurm.lookup import newest_job, queue
from fsdpctl.backends.slurm.queue import QueuedJob, view_job
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import RunFacts

_accounts = Accounts()


def observe_jobs(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    """Return run id -> View of runs that have a job of their own."""
    try:
        jobs = queue.jobs()
    except SlurmError as error:
        return {run.run_id: _view_unanswered(run.paths, error) for run in runs}
    found = {run: newest_job(run.paths, jobs) for run in runs}
    found |= _find_past_jobs([run for run, job in found.items() if job is None])
    return {run.run_id: _view(run.paths, job) for run, job in found.items()}


def is_judged(run: RunFacts) -> bool:
    """Return whether the newest submission has ended, and Slurm knows no more about it."""
    return run.final_state not in (None, State.LOST)


def _find_past_jobs(runs: Sequence[RunFacts]) -> dict[RunFacts, QueuedJob]:
    """Return from sacct the jobs that have ended, are forgotten by the controller, and are not recorded in the run."""
    refs = {run: ref for run in runs if not is_judged(run) and (ref := read_ref(run.paths)) is not None and ref.job_id}
    past = _accounts.jobs([ref.job_id for ref in refs.values() if ref.job_id is not None])
    newest = {run: newest_job(run.paths, past) for run in refs}
    return {run: job for run, job in newest.items() if job is not None and job.is_over}


def _view(run: RunPaths, job: QueuedJob | None) -> View:
    ref = read_ref(run)
    if job is not None and not job.is_over:
        return view_job(job, run)
    if ref is not None and ref.final is not None:
        return View("none", ref.reason, ref.final, job_id=ref.job_id)
    if job is not None:
        view = view_job(job, run)  # which may be a second job of the submission, that ended at once
        return replace(view, job_id=ref.job_id) if ref is not None and ref.job_id else view
    if ref is None or ref.job_id is None:
        return View("none")
    return View("none", f"Slurm does not know job {ref.job_id} any more", State.LOST, job_id=ref.job_id)


def _view_unanswered(run: RunPaths, error: SlurmError) -> View:
    ref = read_ref(run)
    if ref is None or ref.final is not None:
        return _view(run, None)
    return View("unknown", f"Slurm does not answer: {error}", job_id=ref.job_id)
