"""Several runs as one job array: each task is the job of a run, with the id `JOB_TASK`.

`RUNS_ROOT/.arrays/NAME/` is the working directory of an array, by which accounts know it. A link for each task leads to
the directory of its run: Slurm writes `batch.log` through it.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from fsdpctl.backends.slurm.allocation import find_allocation
from fsdpctl.backends.slurm.batch_script import SUPERVISOR, JobNames, escape_pattern, job_options, script_of
from fsdpctl.backends.slurm.end import scancel
from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref, update_ref
from fsdpctl.backends.slurm.lookup import living_job, wait_for
from fsdpctl.backends.slurm.queue import explain
from fsdpctl.backends.slurm.sbatch import FOUND_WITHIN_S, UncertainError, sbatch
from fsdpctl.commands.environment import code_env
from fsdpctl.contract import Env
from fsdpctl.contract.paths import DIR_MODE, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import LaunchError, RefusedError
from fsdpctl.runs.record import new_run_id
from fsdpctl.runs.store import read_record

_RUN = "${fsdpctl_run}"


def find_obstacle(plans: Sequence[LaunchPlan]) -> str | None:
    """Return why these runs cannot be one job array; None if they can."""
    if find_allocation(os.environ) is not None:
        return "they start in the allocation of this shell"
    if any(plan.hold is not None for plan in plans):
        return "they start in a hold"
    if any(plan.after is not None for plan in plans):
        return "they wait for other runs"
    if changed := _changed_options(plans):
        return f"they differ in {', '.join(changed)}"
    return None


def start_array(runs: Sequence[RunPaths], plans: Sequence[LaunchPlan], name: str, at_once: int | None) -> str:
    """Start the newest submission of each run as a task of one job array; return the id of the array.

    `name`: of the job, in the queue. `at_once`: maximum number of tasks that run at a time. The locks of the runs are
    held. Raise RefusedError if Slurm does not accept the array, or would never start it; nothing is submitted then.
    """
    if (obstacle := find_obstacle(plans)) is not None:
        raise RefusedError(f"these runs cannot be one job array: {obstacle}")
    array = _make_directory(runs, name)
    for task, run in enumerate(runs):
        submission = len(read_record(run).submissions)
        append_ref(run, SlurmRef(submission, time.time(), array_task=f"{array.name}/{task}"))
        run.supervisor.unlink(missing_ok=True)  # of an earlier start in an allocation
    try:
        array_id = _submit(runs, array_script(plans, array, name, at_once), array)
        _refuse_hopeless(runs[0], array_id)
    except RefusedError:
        shutil.rmtree(array, ignore_errors=True)
        raise
    return array_id


def _submit(runs: Sequence[RunPaths], script: str, array: Path) -> str:
    try:
        array_id = sbatch(array, script)
    except UncertainError:
        if (job := wait_for(lambda: living_job(runs[0]), FOUND_WITHIN_S)) is None:
            raise
        array_id = job.job_id.partition("_")[0]
    for task, run in enumerate(runs):
        update_ref(run, job_id=f"{array_id}_{task}")
    return array_id


def _refuse_hopeless(run: RunPaths, array_id: str) -> None:
    """Cancel an array that can never start, and raise RefusedError."""
    try:
        job = living_job(run)
    except LaunchError:  # the array is submitted, and `status` reports what Slurm does with it
        return
    if job is not None and job.never_starts:
        scancel([array_id])
        raise RefusedError(f"Slurm would never start the jobs: {explain(job.reason)}")


def array_script(plans: Sequence[LaunchPlan], array: Path, name: str, at_once: int | None) -> str:
    """Return the batch script of an array: each task starts the supervisor of its run. Pure."""
    first = plans[0]
    assert first.slurm is not None
    names = JobNames(name, array.name, f"{escape_pattern(str(array))}/%a/{RunPaths(array).batch_log.name}", str(array))
    throttle = f"%{at_once}" if at_once is not None else ""
    env = {Env.RUN_ID: "${fsdpctl_run##*/}", **code_env(RunPaths.of(_RUN))}
    code = RunPaths.of(_RUN).code
    return script_of(
        [*job_options(first, names), f"--array=0-{len(plans) - 1}{throttle}"],
        [
            f"fsdpctl_runs=({shlex.join(plan.run_dir for plan in plans)})",
            'fsdpctl_run="${fsdpctl_runs[$SLURM_ARRAY_TASK_ID]}"',
            f'test -d "{code}" || {{ echo "the code of the run is missing: {code}" >&2; exit 1; }}',
            f'cd "{_RUN}"',
            *first.setup,
            *[f'export {name}="{value}"' for name, value in env.items()],
            f'exec {shlex.join([first.slurm.python, "-m", SUPERVISOR])} "{_RUN}"',
        ],
    )


def _make_directory(runs: Sequence[RunPaths], name: str) -> Path:
    """Make the directory of a new array, and remove those whose runs are gone."""
    arrays = runs[0].root.parent / ".arrays"
    arrays.mkdir(DIR_MODE, exist_ok=True)
    for older in {link.parent for link in arrays.glob("*/*")}:
        if not any(link.exists() for link in older.glob("*")):
            shutil.rmtree(older, ignore_errors=True)
    while True:
        array = arrays / new_run_id(name)
        with suppress(FileExistsError):
            array.mkdir(DIR_MODE)
            break
    for task, run in enumerate(runs):
        (array / str(task)).symlink_to(run.root)
    return array


def _changed_options(plans: Sequence[LaunchPlan]) -> list[str]:
    """Return the names of the options of sbatch, and of parts of the script, in which plans differ. Pure."""
    options = [set(job_options(plan, JobNames("", "", "", ""))) for plan in plans]
    in_all = set.intersection(*options)
    changed = sorted({option.partition("=")[0] for one in options for option in one - in_all})
    setups, pythons = {plan.setup for plan in plans}, {plan.slurm.python for plan in plans if plan.slurm is not None}
    return [*changed, *(["setup"] if len(setups) > 1 else []), *(["python"] if len(pythons) > 1 else [])]
