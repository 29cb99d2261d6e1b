"""Hold nodes of Slurm: a job that does nothing but wait. Runs are started in it as steps."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence

from fsdpctl.backends.base import HoldView
from fsdpctl.backends.slurm.batch_script import escape_pattern, format_time, script_of
from fsdpctl.backends.slurm.end import CANCEL_LIMIT_S, scancel
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.lookup import wait_for
from fsdpctl.backends.slurm.queue import explain
from fsdpctl.backends.slurm.sbatch import sbatch
from fsdpctl.commands.environment import code_env
from fsdpctl.contract.paths import HoldPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError, LaunchError
from fsdpctl.holds.record import Hold

_PREFIX = "fsdpctl-hold-"
_FORMAT = "%j|%i|%T|%r"
"""Name, id, state, reason; the last may contain the separator."""
_ENDING = ("COMPLETING", "CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


def take(hold: HoldPaths, record: Hold, plan: LaunchPlan) -> None:
    """Submit the job. Raise LaunchError."""
    sbatch(hold.root, hold_script(hold, record, plan))


def hold_script(hold: HoldPaths, record: Hold, plan: LaunchPlan) -> str:
    """Return the batch script: it waits on the first node until the hold ends. Pure."""
    assert plan.slurm is not None
    options = [
        f"--job-name={_PREFIX}{record.name}",
        f"--nodes={record.num_nodes}",
        "--ntasks-per-node=1",
        f"--time={format_time(record.time_s)}",
        "--no-requeue",
        f"--output={escape_pattern(str(hold.batch_log))}",
        f"--chdir={hold.root}",
        *plan.slurm.options,
    ]
    env = code_env(RunPaths(hold.root))
    return script_of(
        options,
        [
            *plan.setup,
            *[f"export {name}={shlex.quote(value)}" for name, value in env.items()],
            shlex.join(["exec", plan.slurm.python, "-m", "fsdpctl.backends.slurm.job.hold", str(hold.root)]),
        ],
    )


def look(names: Sequence[str]) -> Mapping[str, HoldView]:
    """Return what Slurm reports of the jobs of holds, with one query for all."""
    try:
        jobs = _ask_jobs()
    except SlurmError as error:
        return {name: HoldView("unknown", f"Slurm does not answer: {error}") for name in names}
    return {name: _view(jobs.get(f"{_PREFIX}{name}")) for name in names}


def release(hold: HoldPaths, plan: LaunchPlan) -> None:
    """Cancel the job, and wait until it is gone. Raise FsdpctlError."""
    name = f"{_PREFIX}{hold.root.name}"

    def find() -> list[str]:
        try:
            return list(_ask_jobs().get(name, ())[:1])
        except SlurmError as error:
            raise LaunchError(f"Slurm does not answer: {error}") from error

    if found := find():
        scancel(found)
        if not wait_for(lambda: not find(), CANCEL_LIMIT_S):
            raise FsdpctlError(f"job {found[0]} is still there after {CANCEL_LIMIT_S:.0f} s", hint="see `squeue --me`")


def _ask_jobs() -> dict[str, tuple[str, str, str]]:
    """Return id, state and reason of this user's jobs that have not ended, by name. Raise SlurmError."""
    text = ask(["squeue", "--me", "--noheader", f"--format={_FORMAT}"], tool_environment())
    rows = [line.strip().split("|", _FORMAT.count("|")) for line in text.splitlines()]
    return {row[0]: (row[1], row[2], row[3]) for row in rows if len(row) == 4 and row[0].startswith(_PREFIX)}


def _view(job: tuple[str, str, str] | None) -> HoldView:
    if job is None:
        return HoldView("over", "its job has ended")
    job_id, state, reason = job
    if state == "PENDING":
        return HoldView("queued", f"job {job_id}: {explain(reason)}")
    return HoldView("over", f"job {job_id} is {state}") if state in _ENDING else HoldView("held", f"job {job_id}")
