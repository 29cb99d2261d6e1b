"""Judge how an attempt ended. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from fsdpctl.contract import GOOD_ENDS, AbortReason, Cause, NodeExit, State, StopReason
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.first_failure import name_end
from fsdpctl.contract.records import NodeEnd
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.first_end import first_bad_end, may_follow

_UNSAVED = {
    True: "not saved, a resume continues from an older checkpoint",
    False: "not saved, a resume begins at step 0",
}
"""By whether the trainer has a checkpoint."""

_STOP_CAUSES = {StopReason.TIME: Cause.TIME_LIMIT, StopReason.PREEMPT: Cause.PREEMPTION}
_ABORT_CAUSES = {AbortReason.LOST: Cause.LOST}

_SHOWN = 1000
"""Characters of a message that a verdict keeps."""

_RAISED = (Cause.EXCEPTION, Cause.EXIT_CODE)
"""Causes that may come of an exception."""


def judge(attempt: AttemptEnd) -> Verdict:
    """Return how an attempt ended. What rank 0 recorded counts more than how processes exited afterwards."""
    outcome = attempt.outcome
    if outcome is not None and outcome.status == "finished":
        return Verdict(State.SUCCEEDED, f"finished at step {outcome.step}", cause=Cause.FINISHED)
    if attempt.abort is not None and attempt.abort.is_cancel:
        return cancelled(attempt.abort)
    if outcome is not None and outcome.status == "stopped" and outcome.checkpoint and not _was_broken_off(attempt):
        return stopped(attempt.stop, f"; saved at step {outcome.step}")
    if attempt.abort is not None and attempt.abort.cause == AbortReason.HANG:  # what ended after it is a victim
        return Verdict(State.FAILED, attempt.abort.reason, cause=Cause.HANG)
    bad = {rank: end for rank, end in attempt.ends.items() if end.code not in GOOD_ENDS}
    missing = [rank for rank in range(attempt.num_nodes) if rank not in attempt.ends]
    if bad and not (missing and all(map(may_follow, bad.values()))):
        return _failed(bad, attempt)
    if not attempt.ends and attempt.stop is not None and attempt.stop.is_users_stop:
        return stopped(attempt.stop, "; no agent has reported how it ended")
    if missing:
        reason = f"the agent of node {missing[0]} vanished without an exit record{attempt.full_disk}"
        return Verdict(State.LOST, reason, cause=Cause.LOST)
    if all(end.code == NodeExit.FINISHED for end in attempt.ends.values()):
        return Verdict(State.SUCCEEDED, "finished", cause=Cause.FINISHED)
    unsaved = [end.reason for end in attempt.ends.values() if _may_be_unsaved(attempt, end)]
    return stopped(attempt.stop, f"; {_describe_unsaved(attempt, unsaved[0])}" if unsaved else "")


def _may_be_unsaved(attempt: AttemptEnd, end: NodeEnd) -> bool:
    """Return whether a node's ranks may have left without a save: also those of a script that end on TERM alone."""
    return end.code == NodeExit.STOPPED_UNSAVED or (end.is_forced and attempt.has_older is None)


def _describe_unsaved(attempt: AttemptEnd, reason: str) -> str:
    """Return what a stop may have lost, as text: what a script that was ended by force had saved, only it knows."""
    if attempt.outcome is not None and attempt.outcome.status == "stopped" and attempt.outcome.reason:
        return attempt.outcome.reason
    return f"{reason}, a resume starts the script again" if attempt.has_older is None else _UNSAVED[attempt.has_older]


def end_between(stop: ControlFile | None, abort: ControlFile | None) -> Verdict | None:
    """Return the verdict that a user requests between two attempts; None if there is no request."""
    if abort is not None and abort.is_cancel:
        return cancelled(abort)
    if stop is not None and stop.is_users_stop:
        return stopped(stop, " between two attempts")
    return None


def cancelled(abort: ControlFile) -> Verdict:
    """Return the verdict after a cancel."""
    return Verdict(State.CANCELLED, abort.reason or "cancelled", cause=Cause.CANCEL)


def confirmed(verdict: Verdict, left: Sequence[str]) -> Verdict:
    """Return the verdict, as LOST after a cancel if something may still run; `left`: where and why, one line each."""
    if verdict.state is not State.CANCELLED or not left:
        return verdict
    reason = f"{verdict.reason}; not confirmed that nothing is left: {'; '.join(left)}"
    return replace(verdict, state=State.LOST, reason=reason)


def stopped(stop: ControlFile | None, detail: str = "") -> Verdict:
    """Return the verdict after a stop, with the reason from the stop file if there is one."""
    if stop is None or not stop.cause:
        return Verdict(State.STOPPED, f"stopped{detail}", cause=Cause.STOP)
    cause = next((cause for reason, cause in _STOP_CAUSES.items() if stop.cause == reason), Cause.STOP)
    return Verdict(State.STOPPED, f"stopped ({stop.cause}){detail}", cause=cause)


def _failed(bad: Mapping[int, NodeEnd], attempt: AttemptEnd) -> Verdict:
    """Return the verdict with the first failure."""
    rank, end = first_bad_end(bad, attempt.abort)
    cause, abort = end.cause, attempt.abort
    if cause is Cause.ABORT and abort is not None:
        cause = next((cause for reason, cause in _ABORT_CAUSES.items() if abort.cause == reason), cause)
    if cause is Cause.PACKAGE and [node.cause for node in bad.values()].count(cause) < attempt.num_nodes:
        cause = Cause.NODE_CHECK  # another node can run it
    return Verdict(State.FAILED, name_end(rank, end), cause=cause, exception=_describe_exception(end))


def _describe_exception(end: NodeEnd) -> str:
    """Return the exception that ended a node's first rank, and its place; empty if either is not known."""
    error = end.first_error
    if error is None or not error.place or end.cause not in _RAISED:
        return ""
    return f"{error.message[:_SHOWN]} at {error.place}"


def _was_broken_off(attempt: AttemptEnd) -> bool:
    """Return whether a fault ended the ranks by TERM, which the trainer handles like a stop."""
    return attempt.stop is None and attempt.abort is not None and not attempt.abort.is_cancel
