"""End the job of a run: with a save, or now. While Slurm does not answer, the run is asked through its directory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from fsdpctl.backends.detached import control
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask
from fsdpctl.backends.slurm.job_refs import update_ref
from fsdpctl.backends.slurm.lookup import NoAnswerError, living_job, living_jobs, wait_for
from fsdpctl.backends.slurm.observe import is_judged
from fsdpctl.backends.slurm.queue import QueuedJob
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError, LaunchError
from fsdpctl.runs.evidence import AttemptFacts, RunFacts

CANCEL_LIMIT_S = 90.0
"""Slurm's KillWait, 30 s by default, an epilog, and a margin."""
ATTEMPT_LIMIT_S = 30.0
"""From a job's start to its attempt's directory."""


def stop_jobs(runs: Sequence[RunPaths], report: Callable[[str], None]) -> list[RunPaths]:
    """Remove waiting jobs from the queue; ask the attempts of running ones to save and exit.

    Return the runs that were alive. Raise FsdpctlError if one could not be asked; all others are.
    """
    try:
        alive = living_jobs(runs)
        running = _remove_waiting(alive)
    except NoAnswerError as error:
        return [run for run in runs if _stop_attempt(run, error, report)]
    problems = [problem for run, job in running.items() if (problem := _ask_to_stop(run, job)) is not None]
    if problems:
        raise problems[0]
    return [*alive]


def _remove_waiting(alive: Mapping[RunPaths, QueuedJob]) -> Mapping[RunPaths, QueuedJob]:
    """Cancel the jobs that wait in the queue; return those that run, one that has begun in between included."""
    if not (waiting := [job.job_id for job in alive.values() if job.is_waiting]):
        return alive
    tasks = {run: job for run, job in alive.items() if job.is_waiting and job.is_array_task}
    if tasks:
        _hold(tasks)
    scancel(["--state=PENDING", *waiting])
    left = living_jobs([*alive])
    if begun := [job.job_id for run, job in left.items() if run in tasks]:
        _ask_scontrol("release", begun)  # or a requeue would wait for that
    for run, job in alive.items():
        if job.is_waiting and run not in left:
            update_ref(run, final=State.STOPPED, reason="stopped (user) while it waited in the queue")
    return left


def _ask_to_stop(run: RunPaths, job: QueuedJob) -> FsdpctlError | None:
    if wait_for(lambda: RunFacts(run).newest_of_submission, ATTEMPT_LIMIT_S) is None:
        return FsdpctlError(f"job {job.job_id} has not begun to train", hint=f"fsdpctl cancel {run.root.name}")
    control.ask_to_stop(run)
    return None


def cancel_job(run: RunPaths, report: Callable[[str], None]) -> bool:
    """Cancel the run's job; agents that see the request in time end their ranks first."""
    try:
        job = living_job(run)
    except NoAnswerError as error:
        return _cancel_attempt(run, error, report)
    if job is None:
        return False
    if _open_attempt(run) is not None:
        control.ask_to_end(run)
    scancel([job.job_id])
    if not wait_for(lambda: living_job(run) is None, CANCEL_LIMIT_S):
        raise FsdpctlError(f"job {job.job_id} is still there after {CANCEL_LIMIT_S:.0f} s", hint="see `squeue --me`")
    update_ref(run, final=State.CANCELLED, reason="cancelled")
    return True


def _hold(tasks: Mapping[RunPaths, QueuedJob]) -> None:
    """Hold tasks of job arrays, which makes each a record of its own in the queue. Raise LaunchError.

    Slurm 22.05 cancels all waiting tasks of an array when `scancel --state=PENDING` names one that is not.
    """
    try:
        _ask_scontrol("hold", [job.job_id for job in tasks.values()])
    except LaunchError:
        left = living_jobs([*tasks])
        if any(job.is_waiting and not job.is_held for job in left.values()):  # else one has ended in between
            raise


def _ask_scontrol(command: Literal["hold", "release"], job_ids: Sequence[str]) -> None:
    try:
        ask(["scontrol", command, *job_ids], tool_environment())
    except SlurmError as error:
        raise LaunchError(f"Slurm does not {command} {', '.join(job_ids)}: {error}") from error


def scancel(arguments: list[str]) -> None:
    """Run scancel. Raise LaunchError."""
    try:
        ask(["scancel", *arguments], tool_environment())
    except SlurmError as error:
        raise LaunchError(f"Slurm does not cancel: {error}") from error


def _stop_attempt(run: RunPaths, error: NoAnswerError, report: Callable[[str], None]) -> bool:
    if not _is_open(run, error):
        return False
    report(f"{error.message}; the run is asked through its directory")
    control.ask_to_stop(run)
    return True


def _cancel_attempt(run: RunPaths, error: NoAnswerError, report: Callable[[str], None]) -> bool:
    """End the run without Slurm: the batch script ends its job after the agents have ended all ranks.

    Return False if it has ended by itself.
    """
    if not _is_open(run, error):
        return False
    report(f"{error.message}; the run is ended through its directory")
    submissions = len(RunFacts(run).record.submissions)

    def has_ended() -> bool:
        if RunFacts(run).has_ended or control.was_resumed(run, submissions):
            return True
        control.ask_to_end(run)  # the newest attempt may change between calls
        return False

    if not wait_for(has_ended, CANCEL_LIMIT_S):
        raise LaunchError(
            f"{run.root.name} is being cancelled; its nodes have not confirmed the end, and {error.message}",
            hint=f"fsdpctl cancel {run.root.name} once Slurm answers",
        )
    if RunFacts(run).final_state is not State.CANCELLED:
        return False
    update_ref(run, final=State.CANCELLED, reason="cancelled")
    return True


def _is_open(run: RunPaths, error: NoAnswerError) -> bool:
    """Return whether the run can be asked through its newest attempt; False if it has ended. Raise the error if only
    Slurm knows more."""
    if is_judged(RunFacts(run)):
        return False
    if _open_attempt(run) is None:
        raise error
    return True


def _open_attempt(run: RunPaths) -> AttemptFacts | None:
    """Return the newest attempt of the submission; None if it was the last one."""
    newest = RunFacts(run).newest_of_submission
    return newest if newest is not None and not newest.is_last else None
