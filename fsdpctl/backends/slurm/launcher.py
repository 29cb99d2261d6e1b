"""The Slurm launcher: submit the batch job that supervises a run, or start its supervisor in an allocation.

A job belongs to a run by its comment. Ids are not enough: a controller that lost its state reuses them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from fsdpctl.backends.base import View
from fsdpctl.backends.detached import control
from fsdpctl.backends.slurm.allocation import allocation_for, cancel_inside, is_inside, observe_inside, start_inside
from fsdpctl.backends.slurm.batch_script import batch_script
from fsdpctl.backends.slurm.end import cancel_job, scancel, stop_jobs
from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref, read_ref, update_ref
from fsdpctl.backends.slurm.lookup import find_after_job, living_job, wait_for
from fsdpctl.backends.slurm.observe import observe_jobs
from fsdpctl.backends.slurm.queue import explain
from fsdpctl.backends.slurm.sbatch import FOUND_WITHIN_S, UncertainError, sbatch
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError, NoSlotError, RefusedError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.store import read_record


def start(run: RunPaths, plan: LaunchPlan) -> None:
    """Submit the newest submission once: if an earlier submit was killed after its sbatch, its job is used.

    In a hold or an interactive allocation the run is started there instead.
    """
    submission, ref = len(read_record(run).submissions), read_ref(run)
    existing = living_job(run) if ref is not None else None
    if existing is None and (allocation := allocation_for(plan)) is not None:
        start_inside(run, plan, submission, allocation)
        return
    if ref is None or ref.submission < submission:  # else this is another try of the same submit
        append_ref(run, SlurmRef(submission, time.time()))
    if existing is not None:
        update_ref(run, job_id=existing.job_id)
        return
    run.supervisor.unlink(missing_ok=True)  # of an earlier start in an allocation
    try:
        _submit(run, plan)
    except NoSlotError:
        raise
    except RefusedError:
        if plan.slurm is None or not plan.slurm.suspects:
            raise
        _submit(run, replace(plan, slurm=replace(plan.slurm, suspects=())))  # there are not enough other nodes


def _submit(run: RunPaths, plan: LaunchPlan) -> None:
    """Submit the job once. Raise RefusedError if Slurm does not accept it, or would never start it."""
    try:
        job_id = sbatch(run.root, batch_script(plan, find_after_job(plan)))
    except UncertainError as error:
        job_id = _find_late(run, error)
    update_ref(run, job_id=job_id)
    _refuse_hopeless(run)


def _find_late(run: RunPaths, error: UncertainError) -> str:
    job = wait_for(lambda: living_job(run), FOUND_WITHIN_S)
    if job is None:
        raise error
    return job.job_id


def _refuse_hopeless(run: RunPaths) -> None:
    """Cancel a job that can never start, and raise RefusedError: most clusters queue even those."""
    try:
        job = living_job(run)
    except LaunchError:  # the job is submitted, and `status` reports what Slurm does with it
        return
    if job is not None and job.never_starts:
        scancel([job.job_id])
        raise RefusedError(f"Slurm would never start the job: {explain(job.reason)}")


def observe(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    inside = [run for run in runs if is_inside(run.paths)]
    own = [run for run in runs if run not in inside]
    return {**observe_inside(inside), **(observe_jobs(own) if own else {})}


def stop(run: RunPaths, report: Callable[[str], None]) -> bool:
    return bool(stop_all([run], report))


def stop_all(runs: Sequence[RunPaths], report: Callable[[str], None]) -> list[RunPaths]:
    """Stop many runs with few queries, those that wait first; return those that were alive."""
    inside = [run for run in runs if is_inside(run)]
    own = [run for run in runs if run not in inside]
    return [*(run for run in inside if control.stop(run)), *stop_jobs(own, report)]


def cancel(run: RunPaths, report: Callable[[str], None]) -> bool:
    return cancel_inside(run) if is_inside(run) else cancel_job(run, report)
