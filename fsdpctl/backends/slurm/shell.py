"""A shell on a node of a Slurm run: another step of its job, beside the one of the agents."""

from __future__ import annotations

import os

from fsdpctl.backends.base import ShellCommand
from fsdpctl.backends.slurm.allocation import is_inside
from fsdpctl.backends.slurm.environment import job_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, show_job
from fsdpctl.backends.slurm.job_refs import read_ref
from fsdpctl.backends.slurm.lookup import living_job
from fsdpctl.commands.container import enter, step_options, task_setup
from fsdpctl.commands.setup_lines import with_setup
from fsdpctl.commands.shell import shell_argv
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError
from fsdpctl.runs.evidence import RunFacts


def shell_command(run: RunPaths, plan: LaunchPlan, node_rank: int, *, is_terminal: bool) -> ShellCommand:
    """Raise LaunchError while the run has no nodes: Slurm opens a shell only within a job that runs."""
    job_id, newest = _running_job(run), RunFacts(run).newest
    host = newest.host(node_rank) if newest is not None else None
    if job_id is None or host is None:
        reason = f"{run.root.name} has no job that runs now, and Slurm opens a shell only within one"
        raise LaunchError(reason, hint=f"fsdpctl status {run.root.name}")
    where = [f"--jobid={job_id}", "--overlap", f"--nodelist={host}", "--nodes=1", "--ntasks=1"]
    how = ["--mpi=none", "--cpu-bind=none", "--chdir=/", *(["--pty"] if is_terminal else []), *step_options(plan)]
    inner = with_setup(task_setup(plan), [*enter(plan), *shell_argv(plan, node_rank)])
    return ShellCommand(["srun", *where, *how, *inner], job_environment(os.environ))


def _running_job(run: RunPaths) -> str | None:
    ref = read_ref(run)
    if ref is not None and is_inside(run):
        return ref.job_id
    job = living_job(run)
    if job is None or job.is_waiting:
        return None
    try:
        return show_job(job.job_id).job_id  # srun takes no `JOB_TASK`
    except (SlurmError, ValueError) as error:
        raise LaunchError(f"Slurm does not answer: {error}") from error
