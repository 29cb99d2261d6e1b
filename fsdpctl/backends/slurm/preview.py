"""What Slurm gets for a run, as `submit --dry-run` prints it."""

from __future__ import annotations

from typing import Any

from fsdpctl.backends.slurm.allocation import allocation_for
from fsdpctl.backends.slurm.batch_script import batch_script
from fsdpctl.backends.slurm.job.srun import srun_argv
from fsdpctl.backends.slurm.lookup import find_after_job
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan


def preview(plan: LaunchPlan) -> dict[str, Any]:
    """Return the batch script, and the step that it starts for the first attempt."""
    first = RunPaths.of(plan.run_dir).attempt(1)
    if allocation_for(plan) is not None:  # the supervisor is then on this machine
        return {"srun": srun_argv(plan, first)}
    return {"batch_script": batch_script(plan, find_after_job(plan)), "srun": srun_argv(plan, first)}
