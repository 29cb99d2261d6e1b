"""Whether a run restarts after a failure, row by row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.causes import FAILURES, RESTART_ON, RULES
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.history import History
from fsdpctl.supervise.retries import decide_next

FAILED = Verdict(State.FAILED, "broken")
CONFIGURATION = replace(FAILED, cause=Cause.CONFIGURATION)
NOT_LISTED = "broken; the cause configuration is not in restart_on, so it does not try again"


@pytest.mark.parametrize(
    ("verdict", "history", "restart", "reason"),
    [
        (Verdict(State.SUCCEEDED, "finished"), History(0, 5, 0), False, "finished"),
        (Verdict(State.STOPPED, "stopped (user)"), History(0, 5, 0), False, "stopped (user)"),
        (Verdict(State.CANCELLED, "cancelled"), History(0, 5, 0), False, "cancelled"),
        (FAILED, History(0, 0, 1), False, "broken"),
        (FAILED, History(0, 1, 1), True, "broken"),
        (FAILED, History(1, 1, 0), False, "broken; all 1 restarts are used up"),
        (Verdict(State.LOST, "gone", cause=Cause.LOST), History(0, 1, 1), True, "gone"),
        (FAILED, History(2, 9, 2), True, "broken"),
        (
            FAILED,
            History(2, 9, 3),
            False,
            "broken; 3 attempts in a row made no step, so it does not try again",
        ),
        (
            FAILED,
            History(1, 9, 2, is_repeated=True),
            False,
            "broken; the same exception at the same place ended two attempts without a step, so it does not try again",
        ),
        (CONFIGURATION, History(0, 9, 1), False, NOT_LISTED),
        (CONFIGURATION, History(0, 0, 1), False, "broken"),
        (replace(FAILED, cause=Cause.PACKAGE), History(0, 9, 1), False, NOT_LISTED.replace("configuration", "package")),
    ],
)
def test_decide_next(verdict: Verdict, history: History, restart: bool, reason: str) -> None:
    assert decide_next(verdict, None, history, RESTART_ON) == replace(verdict, reason=reason, restart=restart)
    reworded = replace(verdict, reason="stopped; fault: all restarts are used up")
    assert decide_next(reworded, None, history, RESTART_ON).restart is restart


def test_restart_on_decides_for_each_cause_of_a_failure() -> None:
    for cause in Cause:
        verdict = Verdict(State.FAILED, "broken", cause=cause)
        assert decide_next(verdict, None, History(0, 1, 1), [cause]).restart
        assert decide_next(verdict, None, History(0, 1, 1), []).restart is (cause not in FAILURES)


@pytest.mark.parametrize(("cause", "restarts"), [("user", False), ("", False), ("time", True), ("preempt", True)])
def test_a_failure_while_a_users_stop_is_obeyed_does_not_restart(cause: str, restarts: bool) -> None:
    """What follows another stop depends on the scheduler."""
    for verdict in (FAILED, Verdict(State.LOST, "gone", cause=Cause.LOST)):
        found = decide_next(verdict, ControlFile(cause, ""), History(0, 3, 0), RESTART_ON)
        assert found == replace(verdict, restart=restarts)


def test_each_cause_has_a_rule() -> None:
    assert set(RULES) == set(Cause)
