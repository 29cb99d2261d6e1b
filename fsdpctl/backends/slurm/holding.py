"""Hold nodes of Slurm: a job that does nothing but wait. Runs are started in it as steps."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fsdpctl.backends.base import HoldView
from fsdpctl.backends.slurm.batch_script import escape_pattern, format_time, script_of
from fsdpctl.backends.slurm.end import CANCEL_LIMIT_S, scancel
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.job.scontrol_output import ENDING_STATES
from fsdpctl.backends.slurm.lookup import wait_for
from fsdpctl.backends.slurm.queue import explain
from fsdpctl.backends.slurm.sbatch import sbatch
from fsdpctl.commands.environment import code_env
from fsdpctl.contract.paths import HoldPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError, LaunchError
from fsdpctl.holds.record import Hold

_PREFIX = "fsdpctl-hold-"
_FORMAT = "%j|%i|%T|%r|%Z"
"""Name, id, state, reason, working directory: by the last a job belongs to a hold, whose name another home may have."""


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


@dataclass(frozen=True)
class _Job:
    """A queued or running job of some hold."""

    job_id: str
    state: str
    reason_and_directory: str  # both may contain the separator

    def reason_in(self, hold: HoldPaths) -> str | None:
        """Return Slurm's reason; None for the job of another hold."""
        end = f"|{hold.root}"
        return self.reason_and_directory.removesuffix(end) if self.reason_and_directory.endswith(end) else None


def look(holds: Sequence[HoldPaths]) -> Mapping[HoldPaths, HoldView]:
    """Return what Slurm reports of the jobs of holds, with one query for all."""
    try:
        jobs = _ask_jobs()
    except SlurmError as error:
        return dict.fromkeys(holds, HoldView("unknown", f"Slurm does not answer: {error}"))
    return {hold: _view(hold, jobs) for hold in holds}


def release(hold: HoldPaths, plan: LaunchPlan) -> None:
    """Cancel the job, and wait until it is gone. Raise FsdpctlError."""

    def find() -> list[str]:
        try:
            return [job.job_id for job in _ask_jobs() if job.reason_in(hold) is not None]
        except SlurmError as error:
            raise LaunchError(f"Slurm does not answer: {error}") from error

    if found := find():
        scancel(found)
        if not wait_for(lambda: not find(), CANCEL_LIMIT_S):
            raise FsdpctlError(f"job {found[0]} is still there after {CANCEL_LIMIT_S:.0f} s", hint="see `squeue --me`")


def _ask_jobs() -> list[_Job]:
    """Return this user's jobs of holds that have not ended. Raise SlurmError."""
    return parse_jobs(ask(["squeue", "--me", "--noheader", f"--format={_FORMAT}"], tool_environment()))


def parse_jobs(text: str) -> list[_Job]:
    """Parse the output of `squeue --format=FORMAT`; other jobs, and lines of another form, are skipped."""
    rows = [line.strip().split("|", 3) for line in text.splitlines()]
    return [_Job(*row[1:]) for row in rows if len(row) == 4 and row[0].startswith(_PREFIX)]


def _view(hold: HoldPaths, jobs: Sequence[_Job]) -> HoldView:
    found = [(job, reason) for job in jobs if (reason := job.reason_in(hold)) is not None]
    if not found:
        return HoldView("over", "its job has ended")
    job, reason = found[0]
    if job.state == "PENDING":
        return HoldView("queued", f"job {job.job_id}: {explain(reason)}")
    state, is_over = job.state, job.state in ENDING_STATES
    return HoldView("over", f"job {job.job_id} is {state}") if is_over else HoldView("held", f"job {job.job_id}")
