"""Runs in a hold or an interactive allocation (`salloc`): a detached supervisor here starts their agents by srun.

Such a run has no job of its own. It ends with the allocation at the latest, and is never requeued.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fsdpctl.backends.base import View
from fsdpctl.backends.detached import control
from fsdpctl.backends.slurm.agents import AllocationAgents, owner, read_allocation
from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref, read_ref
from fsdpctl.backends.slurm.lookup import wait_for
from fsdpctl.contract import Env
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError, RefusedError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.supervise.disk import begin_attempt

CANCEL_LIMIT_S = 60.0
"""How long agents and supervisor may take to end a cancelled run."""

_INTERACTIVE_STEP = "4294967290"
"""The step of salloc's own shell, where LaunchParameters has `use_interactive_step`."""


def find_allocation(env: Mapping[str, str]) -> str | None:
    """Return the id of the allocation that this shell has from salloc; None in a batch script, a step or a run."""
    if Env.RUN_ID in env or env.get("ENVIRONMENT") == "BATCH":
        return None
    if env.get("SLURM_STEP_ID", _INTERACTIVE_STEP) != _INTERACTIVE_STEP:
        return None
    return env.get("SLURM_JOB_ID") or None


def allocation_for(plan: LaunchPlan) -> str | None:
    """Return the allocation, of a hold or of this shell, in which a run would start; None if it would get a job."""
    return plan.hold.job_id if plan.hold is not None else find_allocation(os.environ)


def is_inside(run: RunPaths) -> bool:
    """Return whether the newest submission was started in a hold or an interactive allocation."""
    ref = read_ref(run)
    return ref is not None and ref.is_interactive


def start_inside(run: RunPaths, plan: LaunchPlan, submission: int, job_id: str) -> None:
    """Start the newest submission in an allocation. Raise RefusedError if the allocation is over, or too small."""
    job = read_allocation(job_id, owner(plan))
    if len(job.nodes) < len(plan.nodes):
        raise RefusedError(
            f"{owner(plan)} has allocation {job_id} of {len(job.nodes)} nodes, and the run needs {len(plan.nodes)}",
            hint="env -u SLURM_JOB_ID fsdpctl ... submits a job of its own",
        )
    append_ref(run, SlurmRef(submission, time.time(), job_id, is_interactive=True))
    begin_attempt(AllocationAgents(run, plan, job))
    control.start_supervisor(run)


def observe_inside(runs: Sequence[RunFacts]) -> Mapping[str, View]:
    """Return run id -> View of runs in an allocation, by their supervisors."""
    refs = {run.run_id: read_ref(run.paths) for run in runs}
    views = control.observe(runs)
    return {run_id: replace(views[run_id], job_id=ref.job_id) for run_id, ref in refs.items() if ref is not None}


def cancel_inside(run: RunPaths) -> bool:
    """End the run now; the allocation stays. Return False if nothing was running."""
    submissions = len(RunFacts(run).record.submissions)

    def has_ended() -> bool:
        if control.was_resumed(run, submissions):
            return True
        control.ask_to_end(run)  # the newest attempt may change between calls
        return not RunFacts(run).is_running

    if not RunFacts(run).is_running:
        return False
    if not wait_for(has_ended, CANCEL_LIMIT_S):
        raise FsdpctlError(f"{run.root.name} still runs after {CANCEL_LIMIT_S:.0f} s", hint="exit the allocation")
    return True
