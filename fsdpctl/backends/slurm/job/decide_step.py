"""What the supervisor in a Slurm allocation makes of a signal, and of an attempt's end. Pure: tables, tested by row."""

from __future__ import annotations

import signal
from dataclasses import dataclass, replace
from typing import Literal

from fsdpctl.backends.slurm.job.scontrol_output import Job
from fsdpctl.contract import AbortReason, Cause, NodeExit, State, StopReason
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.agents import Next, Step
from fsdpctl.supervise.decide import History, describe_stuck

MAX_EXCLUDED = 3
"""Nodes that one run may put aside; beyond that the fault is hardly the nodes'."""


def read_signal(
    number: int, job: Job | None, own_restarts: int
) -> tuple[StopReason | Literal[AbortReason.CANCEL], str]:
    """What it asks of the attempt, and why; `job` is None where Slurm does not say.

    USR2: the time limit is near, or a preemption where the site sends that. TERM: the job is being ended.
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
    """One ended attempt, seen from inside its allocation."""

    verdict: Verdict  # already through `decide_next`
    stop: ControlFile | None
    job: Job | None  # None for an end that Slurm cannot change
    own_restarts: int  # of the job, when this allocation began
    max_requeues: int
    suspects: tuple[str, ...]  # names of nodes that were at fault or vanished
    history: History


def decide_step(seen: Situation) -> Step:
    """Preemption and the time limit come back; a cancel, a user's stop and a finished run never do."""
    verdict, job = seen.verdict, seen.job
    if job is None or is_final(verdict):
        return Step(Next.LEAVE, verdict)
    if job.is_ending and job.restarts > seen.own_restarts:
        return Step(Next.LEAVE, _restarting(verdict, "Slurm requeued the job", Cause.REQUEUE))
    if job.is_ending and not job.is_taken and job.reason != "TimeLimit":
        reason = "cancelled through Slurm (scancel)"
        return Step(Next.LEAVE, Verdict(State.CANCELLED, reason, step=verdict.step, cause=Cause.CANCEL))
    if seen.stop is not None and seen.stop.is_users_stop:
        return Step(Next.LEAVE, verdict)
    if job.is_preempted:
        return _requeue(seen, "preempted", Cause.PREEMPTION)
    if job.is_ending or (seen.stop is not None and seen.stop.cause == StopReason.TIME):
        return _requeue(seen, "time limit", Cause.TIME_LIMIT)
    if seen.stop is not None and seen.stop.cause == StopReason.PREEMPT:
        return _requeue(seen, "asked to leave by a signal", Cause.PREEMPTION)
    if not verdict.restart:
        return Step(Next.LEAVE, verdict)
    if seen.suspects and count_hosts(job.excluded) + len(seen.suspects) <= MAX_EXCLUDED:
        return _requeue(seen, f"without {', '.join(seen.suspects)}", verdict.cause, seen.suspects)
    return Step(Next.AGAIN, verdict)


def is_final(verdict: Verdict) -> bool:
    """Whether nothing that Slurm says can change it."""
    return verdict.state in (State.SUCCEEDED, State.CANCELLED)


def _requeue(seen: Situation, why: str, cause: Cause, exclude: tuple[str, ...] = ()) -> Step:
    if seen.own_restarts >= seen.max_requeues:
        return _give_up(seen, f"{why}, and all {seen.max_requeues} requeues are used up", cause)
    if cause is Cause.TIME_LIMIT and seen.history.is_stuck:
        return _give_up(seen, f"{why}; {describe_stuck(seen.history)}", cause)
    return Step(Next.REQUEUE, _restarting(seen.verdict, f"{why}, requeued", cause), exclude)


def _give_up(seen: Situation, why: str, cause: Cause) -> Step:
    return Step(Next.LEAVE, replace(seen.verdict, reason=f"{why}; {seen.verdict.reason}", restart=False, cause=cause))


def _restarting(verdict: Verdict, why: str, cause: Cause) -> Verdict:
    return replace(verdict, reason=f"{why}; {verdict.reason}", restart=True, cause=cause)


def find_suspects(end: AttemptEnd) -> list[int]:
    """Ranks of nodes that were at fault, or vanished. What befalls all of several nodes is no node's fault."""
    at_fault = [rank for rank, node in end.ends.items() if node.code == NodeExit.NODE_FAULT]
    vanished = [rank for rank in range(end.num_nodes) if rank not in end.ends]
    found = at_fault or vanished
    return [] if len(found) == end.num_nodes > 1 else found


def count_hosts(expression: str) -> int:
    """At least how many hosts a host list names; a range counts as one."""
    return len([part for part in expression.split(",") if part])
