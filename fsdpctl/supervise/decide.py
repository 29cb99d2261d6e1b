"""Judge how an attempt ended, and decide whether the run restarts. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from fsdpctl.contract import GOOD_ENDS, AbortReason, Cause, NodeExit, State, StopReason
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.first_failure import name_end
from fsdpctl.contract.records import NodeEnd
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.first_end import first_bad_end, may_follow

MAX_FAILURES_WITHOUT_PROGRESS = 3

_UNSAVED = {
    True: "not saved, a resume continues from an older checkpoint",
    False: "not saved, a resume begins at step 0",
}
"""By whether the trainer has a checkpoint."""

_STOP_CAUSES = {StopReason.TIME: Cause.TIME_LIMIT, StopReason.PREEMPT: Cause.PREEMPTION}
_ABORT_CAUSES = {AbortReason.HANG: Cause.HANG, AbortReason.LOST: Cause.LOST}

_EXTERNAL = (Cause.PREEMPTION, Cause.REQUEUE)
"""Causes outside of the run: the scheduler took the nodes."""


def judge(attempt: AttemptEnd) -> Verdict:
    """Return how an attempt ended. What rank 0 recorded counts more than how processes exited afterwards."""
    outcome = attempt.outcome
    if outcome is not None and outcome.status == "finished":
        return Verdict(State.SUCCEEDED, f"finished at step {outcome.step}", cause=Cause.FINISHED)
    if attempt.abort is not None and attempt.abort.is_cancel:
        return cancelled(attempt.abort)
    if outcome is not None and outcome.status == "stopped" and outcome.checkpoint and not _was_broken_off(attempt):
        return stopped(attempt.stop, f"; saved at step {outcome.step}")
    bad = {rank: end for rank, end in attempt.ends.items() if end.code not in GOOD_ENDS}
    missing = [rank for rank in range(attempt.num_nodes) if rank not in attempt.ends]
    if bad and not (missing and all(map(may_follow, bad.values()))):
        return _failed(bad, attempt.abort)
    if not attempt.ends and attempt.stop is not None and attempt.stop.is_users_stop:
        return stopped(attempt.stop, "; no agent has reported how it ended")
    if missing:
        reason = f"the agent of node {missing[0]} vanished without an exit record{attempt.full_disk}"
        return Verdict(State.LOST, reason, cause=Cause.LOST)
    if all(end.code == NodeExit.FINISHED for end in attempt.ends.values()):
        return Verdict(State.SUCCEEDED, "finished", cause=Cause.FINISHED)
    unsaved = [end.reason for end in attempt.ends.values() if end.code == NodeExit.STOPPED_UNSAVED]
    return stopped(attempt.stop, f"; {_describe_unsaved(attempt, unsaved[0])}" if unsaved else "")


def _describe_unsaved(attempt: AttemptEnd, reason: str) -> str:
    """Return what a stop may have lost, as text: what a script that was ended by force had saved, only it knows."""
    if attempt.outcome is not None and attempt.outcome.status == "stopped" and attempt.outcome.reason:
        return attempt.outcome.reason
    return f"{reason}, a resume starts the script again" if attempt.has_older is None else _UNSAVED[attempt.has_older]


def end_between(stop: ControlFile | None, abort: ControlFile | None) -> Verdict | None:
    """Return the verdict that a control file requests between two attempts; None if there is no request."""
    if abort is not None and abort.is_cancel:
        return cancelled(abort)
    if stop is not None:
        return stopped(stop, " between two attempts")
    return None


def cancelled(abort: ControlFile) -> Verdict:
    """Return the verdict after a cancel."""
    return Verdict(State.CANCELLED, abort.reason or "cancelled", cause=Cause.CANCEL)


def stopped(stop: ControlFile | None, detail: str = "") -> Verdict:
    """Return the verdict after a stop, with the reason from the stop file if there is one."""
    if stop is None or not stop.cause:
        return Verdict(State.STOPPED, f"stopped{detail}", cause=Cause.STOP)
    cause = next((cause for reason, cause in _STOP_CAUSES.items() if stop.cause == reason), Cause.STOP)
    return Verdict(State.STOPPED, f"stopped ({stop.cause}){detail}", cause=cause)


def _failed(bad: Mapping[int, NodeEnd], abort: ControlFile | None) -> Verdict:
    """Return the verdict with the first failure."""
    rank, end = first_bad_end(bad, abort)
    cause = end.cause
    if cause is Cause.ABORT and abort is not None:
        cause = next((cause for reason, cause in _ABORT_CAUSES.items() if abort.cause == reason), cause)
    return Verdict(State.FAILED, name_end(rank, end), cause=cause)


def _was_broken_off(attempt: AttemptEnd) -> bool:
    """Return whether a fault ended the ranks by TERM, which the trainer handles like a stop."""
    return attempt.stop is None and attempt.abort is not None and not attempt.abort.is_cancel


@dataclass(frozen=True)
class History:
    """The restarts and progress of one submission."""

    restarts_used: int
    restarts_allowed: int
    without_progress: int  # attempts in a row without a new step, this one included

    @property
    def is_stuck(self) -> bool:
        """Whether another attempt would make no progress."""
        return self.without_progress >= MAX_FAILURES_WITHOUT_PROGRESS


def measure_history(verdicts: Sequence[Verdict], before: int, restarts_allowed: int) -> History:
    """Count failures and attempts without progress; the last verdict is that of the attempt that has just ended.

    `before` is the step at which the submission began. Attempts that the scheduler
    ended by preemption or requeue do not count; those that ended at a time limit do.
    """
    failures = [verdict for verdict in verdicts[:-1] if verdict.state in (State.FAILED, State.LOST)]
    best, idle = before, 0
    for verdict in verdicts:
        if verdict.step > best:
            best, idle = verdict.step, 0
        elif verdict.cause not in _EXTERNAL:
            idle += 1
    return History(len(failures), restarts_allowed, idle)


def decide_next(verdict: Verdict, history: History) -> Verdict:
    """Return the verdict with its restart: a failure restarts while restarts remain and attempts make progress; a stop
    or a cancel never does."""
    if verdict.state not in (State.FAILED, State.LOST) or history.restarts_allowed == 0:
        return verdict
    if history.restarts_used >= history.restarts_allowed:
        return replace(verdict, reason=f"{verdict.reason}; all {history.restarts_allowed} restarts are used up")
    if history.is_stuck:
        return replace(verdict, reason=f"{verdict.reason}; {describe_stuck(history)}")
    return replace(verdict, restart=True)


def describe_stuck(history: History) -> str:
    return f"{history.without_progress} attempts in a row made no step, so it does not try again"
