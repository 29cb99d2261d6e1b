"""The table of runs/decide.py, row by row."""

from __future__ import annotations

import pytest

from fsdpctl.contract import State
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.records import NodeEnd, Outcome
from fsdpctl.supervise.decide import AttemptEnd, History, Verdict, decide_next, judge

FINISHED = Outcome("finished", 20, "step-00000020")
SAVED = Outcome("stopped", 7, "step-00000007", "stop file")
UNSAVED = Outcome("stopped", 7, None)
NO_TIME = Outcome("stopped", 7, None, "not saved: a save took 90.0 s")
OK, STOPPED, STOPPED_UNSAVED = NodeEnd(0, "finished"), NodeEnd(75, "stopped"), NodeEnd(76, "stopped")
KILLED = NodeEnd(1, "rank 2 ended with signal 9 (SIGKILL)", 2, time=10.2)
VICTIM = NodeEnd(1, "rank 0 ended with exit code 1", 0, time=10.1)
NO_GPU = NodeEnd(77, "no GPU", time=9.5)
TOLD = NodeEnd(1, "rank 3 failed: a sentence, with or without a signal", 3, time=10.9)
VICTIM_LEFT = NodeEnd(
    1, "rank 0 ended with exit code 1; processes that could not be killed: [9], sent a signal", 0, time=9.0
)
ABORTED = NodeEnd(1, "fault: node 1: lost", time=9.0)
USER, TIME, CANCEL = ControlFile("user", ""), ControlFile("time", ""), ControlFile("cancel", "fsdpctl cancel")
FAULT = ControlFile("fault", "node 1: lost")


@pytest.mark.parametrize(
    ("ends", "outcome", "stop", "abort", "state", "reason"),
    [
        ({0: OK, 1: OK}, FINISHED, None, None, State.SUCCEEDED, "finished at step 20"),
        ({0: OK, 1: OK}, None, None, None, State.SUCCEEDED, "finished"),
        ({0: OK, 1: KILLED}, FINISHED, None, None, State.SUCCEEDED, "finished at step 20"),
        ({0: OK}, FINISHED, None, CANCEL, State.SUCCEEDED, "finished at step 20"),
        ({0: STOPPED, 1: STOPPED}, SAVED, USER, None, State.STOPPED, "stopped (user); saved at step 7"),
        ({0: STOPPED, 1: STOPPED}, SAVED, TIME, None, State.STOPPED, "stopped (time); saved at step 7"),
        ({0: STOPPED, 1: STOPPED}, None, USER, None, State.STOPPED, "stopped (user)"),
        ({0: STOPPED, 1: ABORTED}, SAVED, USER, None, State.STOPPED, "stopped (user); saved at step 7"),
        (
            {0: STOPPED_UNSAVED, 1: STOPPED_UNSAVED},
            UNSAVED,
            USER,
            None,
            State.STOPPED,
            "stopped (user); not saved, a resume starts the script again",
        ),
        (
            {0: STOPPED_UNSAVED, 1: STOPPED_UNSAVED},
            NO_TIME,
            USER,
            None,
            State.STOPPED,
            "stopped (user); not saved: a save took 90.0 s",
        ),
        ({0: ABORTED, 1: ABORTED}, SAVED, None, FAULT, State.FAILED, "node 0: fault: node 1: lost"),
        ({0: ABORTED, 1: ABORTED}, SAVED, USER, FAULT, State.STOPPED, "stopped (user); saved at step 7"),
        ({}, None, USER, None, State.STOPPED, "stopped (user); no agent has reported how it ended"),
        ({}, None, TIME, None, State.LOST, "the agent of node 0 vanished without a word"),
        ({0: ABORTED, 1: ABORTED}, None, None, CANCEL, State.CANCELLED, "fsdpctl cancel"),
        ({0: ABORTED, 1: ABORTED}, None, None, ControlFile("", ""), State.CANCELLED, "cancelled"),
        ({0: VICTIM, 1: KILLED}, None, None, None, State.FAILED, "node 1: rank 2 ended with signal 9 (SIGKILL)"),
        ({0: VICTIM, 1: ABORTED}, None, None, None, State.FAILED, "node 0: rank 0 ended with exit code 1"),
        ({0: VICTIM_LEFT, 1: KILLED}, None, None, None, State.FAILED, "node 1: rank 2 ended with signal 9 (SIGKILL)"),
        ({0: VICTIM, 1: TOLD}, None, None, None, State.FAILED, f"node 1: {TOLD.reason}"),
        ({0: ABORTED, 1: TOLD}, None, None, None, State.FAILED, f"node 1: {TOLD.reason}"),
        ({1: TOLD}, None, None, None, State.FAILED, f"node 1: {TOLD.reason}"),
        ({0: VICTIM}, None, None, None, State.LOST, "the agent of node 1 vanished without a word"),
        ({0: ABORTED}, None, None, None, State.LOST, "the agent of node 1 vanished without a word"),
        ({0: KILLED}, None, None, None, State.FAILED, "node 0: rank 2 ended with signal 9 (SIGKILL)"),
        ({0: NO_GPU}, None, None, None, State.FAILED, "node 0: no GPU"),
        ({0: OK}, None, None, None, State.LOST, "the agent of node 1 vanished without a word"),
        ({}, None, None, None, State.LOST, "the agent of node 0 vanished without a word"),
    ],
)
def test_judge(
    ends: dict[int, NodeEnd],
    outcome: Outcome | None,
    stop: ControlFile | None,
    abort: ControlFile | None,
    state: State,
    reason: str,
) -> None:
    assert judge(AttemptEnd(2, ends, outcome, stop, abort)) == Verdict(state, reason)


@pytest.mark.parametrize(
    ("has_older", "goes_on"), [(True, "goes on from an older checkpoint"), (False, "begins at step 0")]
)
def test_a_stop_without_a_save_says_where_the_trainer_goes_on(has_older: bool, goes_on: str) -> None:
    end = AttemptEnd(1, {0: STOPPED_UNSAVED}, None, USER, None, has_older=has_older)
    assert judge(end).reason == f"stopped (user); not saved, a resume {goes_on}"


FAILED = Verdict(State.FAILED, "broken")


@pytest.mark.parametrize(
    ("verdict", "history", "restart", "reason"),
    [
        (Verdict(State.SUCCEEDED, "finished"), History(0, 5, 0), False, "finished"),
        (Verdict(State.STOPPED, "stopped (user)"), History(0, 5, 0), False, "stopped (user)"),
        (Verdict(State.CANCELLED, "cancelled"), History(0, 5, 0), False, "cancelled"),
        (FAILED, History(0, 0, 1), False, "broken"),
        (FAILED, History(0, 1, 1), True, "broken"),
        (FAILED, History(1, 1, 0), False, "broken; all 1 restarts are used up"),
        (Verdict(State.LOST, "gone"), History(0, 1, 1), True, "gone"),
        (FAILED, History(2, 9, 2), True, "broken"),
        (
            FAILED,
            History(2, 9, 3),
            False,
            "broken; 3 attempts in a row made no step, so it does not try again",
        ),
    ],
)
def test_decide_next(verdict: Verdict, history: History, restart: bool, reason: str) -> None:
    assert decide_next(verdict, history) == Verdict(verdict.state, reason, restart)
