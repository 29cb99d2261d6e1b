"""Decide in a Slurm allocation what a signal requests, and whether an ended attempt is requeued. Pure."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import Literal

from fsdpctl.backends.slurm.job.scontrol_output import Job
from fsdpctl.contract import AbortReason, Cause, State, StopReason
from fsdpctl.contract.causes import RULES, Then
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.agents import Next, Step
from fsdpctl.supervise.history import History

MAX_EXCLUDED = 3
"""Maximum nodes that one run excludes; with more, the nodes are hardly at fault."""


def read_signal(
    number: int, job: Job | None, own_restarts: int
) -> tuple[StopReason | Literal[AbortReason.CANCEL], str]:
    """Return what a signal requests of the attempt, and why; `job` is None where Slurm does not report it.

    USR2: the time limit is near, or a preemption on clusters that send it then. TERM: the job is being ended.
    """
    if number == signal.SIGTERM and job is not None and _is_cancelled(job, own_restarts):
        return AbortReason.CANCEL, "cancelled through Slurm (scancel)"
    if number == signal.SIGUSR2 and not (job is not None and job.is_preempted):
        return StopReason.TIME, "the time limit of the allocation is near"
    return StopReason.PREEMPT, "Slurm takes the nodes back"


def _is_cancelled(job: Job, own_restarts: int) -> bool:
    return job.is_ending and not job.is_taken and job.restarts == own_restarts and job.reason != "TimeLimit"


@dataclass(frozen=True)
class Situation:
    """One ended attempt, and the state of its job."""

    verdict: Verdict  # from `decide_next`
    stop: ControlFile | None
    job: Job | None  # None for an end that Slurm cannot change, or does not answer for
    own_restarts: int  # of the job, when this allocation began
    max_requeues: int
    suspects: tuple[str, ...]  # names of nodes that were at fault or vanished
    history: History


def decide_step(situation: Situation) -> Step:
    """Return what follows: preemption and time limit requeue; a cancel, a user's stop and a finished run do not."""
    verdict, job = situation.verdict, situation.job
    if job is None or is_final(verdict):
        return Step(Next.LEAVE, verdict)
    is_users_stop = situation.stop is not None and situation.stop.is_users_stop
    is_requeued = job.is_ending and job.restarts > situation.own_restarts
    if is_requeued and not is_users_stop:
        return Step(Next.LEAVE, _restarting(verdict, "Slurm requeued the job", _requeue_cause(situation, job)))
    if job.is_ending and not (is_requeued or job.is_taken or job.reason == "TimeLimit"):
        reason = "cancelled through Slurm (scancel)"
        return Step(Next.LEAVE, Verdict(State.CANCELLED, reason, step=verdict.step, cause=Cause.CANCEL))
    if is_users_stop:
        return Step(Next.LEAVE, verdict)
    if job.is_preempted:
        return _requeue(situation, "preempted", Cause.PREEMPTION)
    if job.is_ending or (situation.stop is not None and situation.stop.cause == StopReason.TIME):
        return _requeue(situation, "time limit", Cause.TIME_LIMIT)
    if situation.stop is not None and situation.stop.cause == StopReason.PREEMPT:
        return _requeue(situation, "asked to leave by a signal", Cause.PREEMPTION)
    if not verdict.restart:
        return Step(Next.LEAVE, verdict)
    if situation.suspects and count_hosts(job.excluded) + len(situation.suspects) <= MAX_EXCLUDED:
        return _requeue(situation, f"without {', '.join(situation.suspects)}", verdict.cause, situation.suspects)
    return Step(Next.AGAIN, verdict)


def _requeue_cause(situation: Situation, job: Job) -> Cause:
    """Return why an attempt ended that Slurm has requeued by itself: without a signal first, by its own failure."""
    is_taken = job.is_preempted or (situation.stop is not None and situation.stop.cause == StopReason.PREEMPT)
    return Cause.REQUEUE if is_taken else situation.verdict.cause


def is_final(verdict: Verdict) -> bool:
    """Return whether no state of the job can change the verdict: another attempt is not wanted, or would be in vain."""
    is_in_vain = verdict.state is State.FAILED and RULES[verdict.cause].then is Then.NEVER and not verdict.restart
    return verdict.state in (State.SUCCEEDED, State.CANCELLED) or is_in_vain


def _requeue(situation: Situation, why: str, cause: Cause, exclude: tuple[str, ...] = ()) -> Step:
    if situation.own_restarts >= situation.max_requeues:
        return _give_up(situation, f"{why}, and all {situation.max_requeues} requeues are used up", cause)
    if cause is Cause.TIME_LIMIT and situation.history.is_stuck:
        failed = replace(situation, verdict=replace(situation.verdict, state=State.FAILED))
        return _give_up(failed, f"{why}; {situation.history.describe_stuck()}", cause)
    return Step(Next.REQUEUE, _restarting(situation.verdict, f"{why}, asks for a requeue", cause), exclude)


def _give_up(situation: Situation, why: str, cause: Cause) -> Step:
    return Step(
        Next.LEAVE, replace(situation.verdict, reason=f"{why}; {situation.verdict.reason}", restart=False, cause=cause)
    )


def _restarting(verdict: Verdict, why: str, cause: Cause) -> Verdict:
    return replace(verdict, reason=f"{why}; {verdict.reason}", restart=True, cause=cause)


def count_hosts(expression: str) -> int:
    """Return at least how many hosts a host list names; a range counts as one."""
    return len([part for part in expression.split(",") if part])
