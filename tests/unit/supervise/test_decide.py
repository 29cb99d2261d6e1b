"""The decisions of supervise/decide.py, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract import Cause, RankFailure, State
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.first_failure import describe_error
from fsdpctl.contract.records import NodeEnd, Outcome, RankError
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.decide import judge

FINISHED = Outcome("finished", 20, "step-00000020")
SAVED = Outcome("stopped", 7, "step-00000007", "stop file")
UNSAVED = Outcome("stopped", 7, None)
NO_TIME = Outcome("stopped", 7, None, "not saved: a save took 90.0 s")
OK = NodeEnd(0, "finished", cause=Cause.FINISHED)
STOPPED, STOPPED_UNSAVED = NodeEnd(75, "stopped", cause=Cause.STOP), NodeEnd(76, "not saved", cause=Cause.STOP)


def failed(rank: int, time: float, failure: RankFailure, cause: Cause, message: str = "x") -> NodeEnd:
    """Return the exit record of a node whose agent noticed half a second later that a rank had failed."""
    error = RankError(rank, rank // 2, time, message, "", failure=failure)
    return NodeEnd(1, describe_error(error), rank, time=time + 0.5, cause=cause, first_error=error)


KILLED = failed(2, 9.7, RankFailure.SIGNAL, Cause.SIGNAL, "ended with signal 9 (SIGKILL)")
VICTIM = failed(0, 9.6, RankFailure.LOST_PEER, Cause.EXIT_CODE)
LEFT = failed(0, 9.6, RankFailure.EXIT_CODE, Cause.EXIT_CODE)
OLD_VICTIM = NodeEnd(1, "rank 0 ended with exit code 1", 0, time=10.1, cause=Cause.EXIT_CODE)
BUG = failed(3, 9.9, RankFailure.EXCEPTION, Cause.EXIT_CODE, "ValueError: user bug")
SECOND_BUG = replace(failed(0, 10.0, RankFailure.EXCEPTION, Cause.EXIT_CODE), time=10.2)  # its agent was quicker
NO_GPU = NodeEnd(77, "no GPU", time=9.5, cause=Cause.NODE_CHECK)
RAISED = failed(3, 10.4, RankFailure.EXCEPTION, Cause.EXCEPTION, "a sentence, with or without a signal")
VICTIM_LEFT = replace(VICTIM, reason=f"{VICTIM.reason}; processes that would not die: [9], sent a signal", time=9.0)
ABORTED = NodeEnd(1, "fault: node 1: lost", time=9.0, cause=Cause.ABORT)
LEFT_ON_TERM = replace(STOPPED, reason="ended by TERM 60 s after the stop", is_forced=True)
FORCED = replace(STOPPED_UNSAVED, reason="ended by force 60 s after the stop")
USER, TIME, CANCEL = ControlFile("user", ""), ControlFile("time", ""), ControlFile("cancel", "fsdpctl cancel")
PREEMPT = ControlFile("preempt", "")
PREEMPTED, VANISHED = Cause.PREEMPTION, "the agent of node {} vanished without an exit record"
FAULT, LOST, HANG = (ControlFile(word, "node 1: lost") for word in ("fault", "lost", "hang"))


ENDS: list[tuple[dict[int, NodeEnd], Outcome | None, ControlFile | None, ControlFile | None, State, str, Cause]] = [
    ({0: OK, 1: OK}, FINISHED, None, None, State.SUCCEEDED, "finished at step 20", Cause.FINISHED),
    ({0: OK, 1: OK}, None, None, None, State.SUCCEEDED, "finished", Cause.FINISHED),
    ({0: OK, 1: KILLED}, FINISHED, None, None, State.SUCCEEDED, "finished at step 20", Cause.FINISHED),
    ({0: OK}, FINISHED, None, CANCEL, State.SUCCEEDED, "finished at step 20", Cause.FINISHED),
    ({0: STOPPED, 1: STOPPED}, SAVED, USER, None, State.STOPPED, "stopped (user); saved at step 7", Cause.STOP),
    ({0: STOPPED, 1: STOPPED}, SAVED, TIME, None, State.STOPPED, "stopped (time); saved at step 7", Cause.TIME_LIMIT),
    ({0: STOPPED, 1: STOPPED}, None, USER, None, State.STOPPED, "stopped (user)", Cause.STOP),
    ({0: STOPPED, 1: ABORTED}, SAVED, USER, None, State.STOPPED, "stopped (user); saved at step 7", Cause.STOP),
    (
        {0: STOPPED_UNSAVED, 1: STOPPED_UNSAVED},
        UNSAVED,
        USER,
        None,
        State.STOPPED,
        "stopped (user); not saved, a resume starts the script again",
        Cause.STOP,
    ),
    (
        {0: STOPPED, 1: LEFT_ON_TERM},
        None,
        USER,
        None,
        State.STOPPED,
        "stopped (user); ended by TERM 60 s after the stop, a resume starts the script again",
        Cause.STOP,
    ),
    (
        {0: STOPPED_UNSAVED, 1: STOPPED_UNSAVED},
        NO_TIME,
        USER,
        None,
        State.STOPPED,
        "stopped (user); not saved: a save took 90.0 s",
        Cause.STOP,
    ),
    (
        {0: STOPPED, 1: FORCED},
        None,
        USER,
        None,
        State.STOPPED,
        "stopped (user); ended by force 60 s after the stop, a resume starts the script again",
        Cause.STOP,
    ),
    ({0: ABORTED, 1: ABORTED}, SAVED, None, FAULT, State.FAILED, "node 0: fault: node 1: lost", Cause.ABORT),
    ({0: ABORTED, 1: ABORTED}, None, None, LOST, State.FAILED, "node 0: fault: node 1: lost", Cause.LOST),
    ({0: ABORTED, 1: ABORTED}, None, None, HANG, State.FAILED, "node 1: lost", Cause.HANG),
    ({0: VICTIM, 1: ABORTED}, None, None, HANG, State.FAILED, "node 1: lost", Cause.HANG),  # failed after the judgement
    ({0: KILLED}, None, None, HANG, State.FAILED, "node 1: lost", Cause.HANG),
    ({0: OK, 1: ABORTED}, FINISHED, None, HANG, State.SUCCEEDED, "finished at step 20", Cause.FINISHED),
    ({0: STOPPED, 1: STOPPED}, SAVED, PREEMPT, None, State.STOPPED, "stopped (preempt); saved at step 7", PREEMPTED),
    ({0: ABORTED, 1: ABORTED}, SAVED, USER, FAULT, State.STOPPED, "stopped (user); saved at step 7", Cause.STOP),
    ({}, None, USER, None, State.STOPPED, "stopped (user); no agent has reported how it ended", Cause.STOP),
    ({}, None, TIME, None, State.LOST, VANISHED.format(0), Cause.LOST),
    ({0: ABORTED, 1: ABORTED}, None, None, CANCEL, State.CANCELLED, "fsdpctl cancel", Cause.CANCEL),
    ({0: ABORTED, 1: ABORTED}, None, None, ControlFile("", ""), State.CANCELLED, "cancelled", Cause.CANCEL),
    (
        {0: VICTIM, 1: KILLED},
        None,
        None,
        None,
        State.FAILED,
        KILLED.reason,
        Cause.SIGNAL,
    ),
    ({0: VICTIM, 1: ABORTED}, None, None, None, State.FAILED, VICTIM.reason, Cause.EXIT_CODE),
    ({0: OLD_VICTIM, 1: KILLED}, None, None, None, State.FAILED, KILLED.reason, Cause.SIGNAL),
    ({0: OLD_VICTIM}, None, None, None, State.LOST, VANISHED.format(1), Cause.LOST),
    ({0: VICTIM, 1: BUG}, None, None, FAULT, State.FAILED, "rank 3 on node 1: ValueError: user bug", Cause.EXIT_CODE),
    ({0: LEFT, 1: BUG}, None, None, None, State.FAILED, BUG.reason, Cause.EXIT_CODE),
    ({0: SECOND_BUG, 1: replace(BUG, time=10.9)}, None, None, None, State.FAILED, BUG.reason, Cause.EXIT_CODE),
    ({1: BUG}, None, None, None, State.FAILED, BUG.reason, Cause.EXIT_CODE),
    ({0: BUG, 1: ABORTED}, None, None, LOST, State.FAILED, BUG.reason, Cause.EXIT_CODE),
    (
        {0: VICTIM_LEFT, 1: KILLED},
        None,
        None,
        None,
        State.FAILED,
        KILLED.reason,
        Cause.SIGNAL,
    ),
    ({0: VICTIM, 1: RAISED}, None, None, None, State.FAILED, RAISED.reason, Cause.EXCEPTION),
    ({0: ABORTED, 1: RAISED}, None, None, None, State.FAILED, RAISED.reason, Cause.EXCEPTION),
    ({1: RAISED}, None, None, None, State.FAILED, RAISED.reason, Cause.EXCEPTION),
    ({0: VICTIM}, None, None, None, State.LOST, VANISHED.format(1), Cause.LOST),
    ({0: ABORTED}, None, None, None, State.LOST, VANISHED.format(1), Cause.LOST),
    ({0: KILLED}, None, None, None, State.FAILED, KILLED.reason, Cause.SIGNAL),
    ({0: NO_GPU}, None, None, None, State.FAILED, "node 0: no GPU", Cause.NODE_CHECK),
    ({0: OK}, None, None, None, State.LOST, VANISHED.format(1), Cause.LOST),
    ({}, None, None, None, State.LOST, VANISHED.format(0), Cause.LOST),
]


@pytest.mark.parametrize(("ends", "outcome", "stop", "abort", "state", "reason", "cause"), ENDS)
def test_judge(
    ends: dict[int, NodeEnd],
    outcome: Outcome | None,
    stop: ControlFile | None,
    abort: ControlFile | None,
    state: State,
    reason: str,
    cause: Cause,
) -> None:
    assert judge(AttemptEnd(2, ends, outcome, stop, abort)) == Verdict(state, reason, cause=cause)


@pytest.mark.parametrize(("ends", "outcome", "stop", "abort", "state", "reason", "cause"), ENDS)
@pytest.mark.parametrize("text", ["", "fault: rank 0 ended with exit code 1", "stopped: starting, training"])
def test_no_decision_depends_on_a_text(
    text: str,
    ends: dict[int, NodeEnd],
    outcome: Outcome | None,
    stop: ControlFile | None,
    abort: ControlFile | None,
    state: State,
    reason: str,
    cause: Cause,
) -> None:
    """With every text replaced by a misleading one, state and cause stay the same."""
    reworded = {rank: replace(end, reason=text) for rank, end in ends.items()}
    outcome = replace(outcome, reason=text) if outcome is not None else None
    stop = replace(stop, reason=text) if stop is not None else None
    abort = replace(abort, reason=text) if abort is not None else None
    verdict = judge(AttemptEnd(2, reworded, outcome, stop, abort))
    assert (verdict.state, verdict.cause) == (state, cause)


@pytest.mark.parametrize(
    ("has_older", "begins"), [(True, "continues from an older checkpoint"), (False, "begins at step 0")]
)
def test_a_stop_without_a_save_reports_where_a_resume_begins(has_older: bool, begins: str) -> None:
    end = AttemptEnd(1, {0: STOPPED_UNSAVED}, None, USER, None, has_older=has_older)
    assert judge(end).reason == f"stopped (user); not saved, a resume {begins}"


NO_TORCH = NodeEnd(77, "torch is missing", time=9.0, cause=Cause.PACKAGE)


@pytest.mark.parametrize(
    ("ends", "cause"),
    [
        ({0: NO_TORCH, 1: NO_TORCH}, Cause.PACKAGE),
        ({0: NO_TORCH, 1: ABORTED}, Cause.NODE_CHECK),  # the other node has it
        ({0: NO_TORCH}, Cause.NODE_CHECK),
    ],
)
def test_a_package_that_only_some_nodes_miss_is_a_fault_of_those(ends: dict[int, NodeEnd], cause: Cause) -> None:
    assert judge(AttemptEnd(2, ends, None, None, None)).cause is cause


ERROR = RankError(3, 1, 10.0, "ValueError: bad", "Traceback", place="train.py:7 in load")


@pytest.mark.parametrize(
    ("end", "error", "exception"),
    [
        (VICTIM, ERROR, "ValueError: bad at train.py:7 in load"),
        (RAISED, ERROR, "ValueError: bad at train.py:7 in load"),
        (KILLED, ERROR, ""),  # its peers failed because it was killed
        (VICTIM, replace(ERROR, place=""), ""),  # written by an older version
        (VICTIM, None, ""),
    ],
)
def test_the_verdict_has_the_exception_that_can_be_its_cause(
    end: NodeEnd, error: RankError | None, exception: str
) -> None:
    verdict = judge(AttemptEnd(1, {0: replace(end, first_error=error)}, None, None, None))
    assert (verdict.cause, verdict.exception) == (end.cause, exception)
