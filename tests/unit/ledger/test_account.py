"""Each second of a run belongs to one use of time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import fields

import pytest

from fsdpctl.contract.work_log import Work
from fsdpctl.ledger.account import AttemptTimes, Ledger, SubmissionTimes, TimeUse, account

STARTS = ((12.0, Work.START), (14.0, Work.RESTORE), (15.0, Work.START), (16.0, Work.STEP))
"""An attempt whose agent began at 10: its first step begins at 16."""


def seconds(ledger: Ledger) -> Mapping[str, float]:
    assert sum(ledger.seconds.values()) == pytest.approx(ledger.total_s)
    return {str(use): spent for use, spent in ledger.seconds.items()}


def test_a_run_that_finishes() -> None:
    work = (*STARTS, (16.5, Work.COMPILE), (20.0, Work.STEP), (60.0, Work.SAVE), (61.0, Work.STEP))
    work = (*work, (80.0, Work.EVALUATE), (84.0, Work.END))
    attempt = AttemptTimes(1, None, 10.0, 11.0, work, 21.0, 79.0, 79.0, ended=90.0)
    ledger = account([SubmissionTimes(8.0, [attempt], ended=90.0)], 90.0)
    assert seconds(ledger) == {
        "start": 7.0,
        "restore": 1.0,
        "compile": 3.5,
        "step": 59.5,
        "save": 1.0,
        "evaluation": 4.0,
        "end": 6.0,
    }
    assert ledger.effective == pytest.approx(63.5 / 82)


def faulty(**values: object) -> AttemptTimes:
    """Return an attempt whose steps after 50 were done again, and which had done them until 70."""
    known = {"began": 10.0, "work": STARTS, "first_step": 17.0, "last_kept_step": 50.0, "last_step": 70.0}
    return AttemptTimes(1, **{**known, "failed": 72.0, "ended": 75.0, "restarts": True, **values})  # type: ignore[arg-type]


def after_a_fault(attempt: AttemptTimes) -> Mapping[str, float]:
    second = AttemptTimes(2, began=80.0, work=[(82.0, Work.STEP)], first_step=83.0, last_kept_step=90.0)
    return seconds(account([SubmissionTimes(8.0, [attempt, second])], 90.0))


def test_steps_after_the_checkpoint_and_the_unfinished_one_are_redone() -> None:
    found = after_a_fault(faulty())
    assert found == {"start": 9.0, "restore": 1.0, "step": 42.0, "redone": 22.0, "restart": 8.0}


def test_saves_and_evaluations_that_were_lost_are_redone_too() -> None:
    late = (*STARTS, (40.0, Work.EVALUATE), (44.0, Work.STEP), (60.0, Work.SAVE), (61.0, Work.STEP))
    found = after_a_fault(faulty(work=late))
    assert (found["evaluation"], found["redone"], found.get("save")) == (4.0, 22.0, None)


def test_a_hang_begins_with_the_last_sign_of_progress() -> None:
    found = after_a_fault(faulty(last_sign=70.5))
    assert (found["redone"], found["hang"], found["restart"]) == (20.5, 1.5, 8.0)


def test_an_attempt_that_lost_all_its_steps_has_none() -> None:
    found = after_a_fault(faulty(first_step=None, last_kept_step=None))
    assert (found["redone"], found["step"]) == (56.0, 8.0)


def test_a_fault_before_the_first_step_is_a_start() -> None:
    attempt = faulty(work=STARTS[:2], first_step=None, last_kept_step=None, last_step=None)
    found = after_a_fault(attempt)
    assert (found["start"], found["restore"], found["restart"]) == (8.0, 58.0, 8.0)


def test_a_stop_without_a_save_loses_steps_once_they_are_done_again() -> None:
    found = after_a_fault(faulty(failed=None))
    assert (found["redone"], found["step"]) == (20.0, 34.0 + 5.0 + 8.0), "what came after them was the stop"


def test_nodes_are_waited_for_before_the_first_attempt_and_after_a_requeue() -> None:
    first = AttemptTimes(1, 30.0, 31.0, None, [(33.0, Work.STEP)], 34.0, 50.0, 50.0, ended=52.0, restarts=True)
    second = AttemptTimes(2, 90.0, 91.0, None, [(93.0, Work.STEP)], 94.0, 99.0)
    ledger = account([SubmissionTimes(0.0, [first, second], waits=True)], 100.0)
    assert seconds(ledger) == {"queue": 68.0, "start": 6.0, "step": 26.0}
    assert ledger.effective == pytest.approx(26 / 32)
    queued = account([SubmissionTimes(0.0, [first], waits=True)], 100.0, is_queued=True)
    assert seconds(queued)["queue"] == 30.0 + 48.0
    assert seconds(account([SubmissionTimes(0.0, [first], waits=True)], 100.0))["restart"] == 48.0
    assert seconds(account([SubmissionTimes(0.0, waits=True)], 7.0, is_queued=True)) == {"queue": 7.0}


def test_the_time_until_a_user_resumes_does_not_count() -> None:
    first = AttemptTimes(1, None, 1.0, None, [(2.0, Work.STEP), (11.0, Work.END)], 3.0, 11.0, 11.0, ended=12.0)
    second = AttemptTimes(2, None, 101.0, None, [(102.0, Work.STEP)], 103.0, 109.0)
    ledger = account([SubmissionTimes(0.0, [first], ended=12.0), SubmissionTimes(100.0, [second])], 110.0)
    assert seconds(ledger) == {"start": 4.0, "step": 17.0, "end": 1.0, "idle": 88.0}
    assert ledger.effective == pytest.approx(17 / 22)


def test_of_a_script_that_reports_nothing_only_its_running_time_is_known() -> None:
    attempt = AttemptTimes(1, began=1.0, ready=3.0, failed=50.0, ended=51.0, restarts=True)
    second = AttemptTimes(2, began=52.0, ready=54.0)
    ledger = account([SubmissionTimes(0.0, [attempt, second])], 60.0)
    assert seconds(ledger) == {"start": 5.0, "running": 53.0, "restart": 2.0}
    assert ledger.effective is None


def test_a_script_that_reports_steps_runs_from_its_first_one() -> None:
    attempt = AttemptTimes(1, None, 1.0, 3.0, (), 10.0, 30.0, 40.0, failed=45.0, ended=46.0, restarts=True)
    second = AttemptTimes(2, None, 47.0, 48.0, (), 50.0, 60.0)
    ledger = account([SubmissionTimes(0.0, [attempt, second])], 60.0)
    assert seconds(ledger) == {"start": 13.0, "running": 30.0, "redone": 15.0, "restart": 2.0}
    assert ledger.effective == pytest.approx(0.5)


def test_an_attempt_whose_agents_never_started_is_a_start() -> None:
    attempt = AttemptTimes(1, failed=9.0, ended=10.0)
    assert seconds(account([SubmissionTimes(0.0, [attempt], ended=10.0)], 10.0)) == {"start": 9.0, "end": 1.0}


def test_any_times_at_all_add_up_without_a_gap() -> None:
    draw = random.Random(7)
    times = [one.name for one in fields(AttemptTimes) if one.type == "float | None"]
    assert len(times) == 10
    for _ in range(300):
        submissions = []
        for _ in range(draw.randint(1, 3)):
            attempts = [
                AttemptTimes(
                    number,
                    work=[(draw.uniform(-5, 105), draw.choice(list(Work))) for _ in range(draw.randint(0, 5))],
                    restarts=draw.random() < 0.5,
                    **{name: draw.uniform(-5, 105) for name in times if draw.random() < 0.6},
                )
                for number in range(draw.randint(0, 3))
            ]
            submissions.append(SubmissionTimes(draw.uniform(0, 100), attempts, draw.random() < 0.5))
        ledger = account(submissions, 100.0, is_queued=draw.random() < 0.5)
        borders = [submissions[0].time, *(interval.end for interval in ledger.intervals)]
        assert [interval.begin for interval in ledger.intervals] == borders[:-1] and borders == sorted(borders)
        assert borders[-1] == 100.0
        assert sum(ledger.seconds.values()) == pytest.approx(100.0 - submissions[0].time)
        assert set(ledger.seconds) <= set(TimeUse)
