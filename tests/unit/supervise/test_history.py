"""Which attempts of a submission count as failures, and which as attempts without progress, row by row."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.progress import with_progress
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise.history import measure_history, read_history

AT = [Verdict(State.FAILED, "", step=step) for step in range(30)]
TIMED_OUT = Verdict(State.STOPPED, "", restart=True, step=9, cause=Cause.TIME_LIMIT)
PREEMPTED_AT_9 = replace(TIMED_OUT, cause=Cause.PREEMPTION)
DIED_WITH_ITS_ALLOCATION = replace(TIMED_OUT, cause=Cause.LOST)
BEFORE = [AT[3], AT[9]]


@pytest.mark.parametrize(
    ("verdicts", "failures", "idle"),
    [
        ([AT[9]], 0, 1),
        ([AT[10]], 0, 0),
        ([AT[9], AT[9], AT[9]], 2, 3),
        ([AT[12], AT[9], AT[12]], 2, 2),  # a step that was done before is no progress
        ([AT[9], AT[9], AT[10]], 2, 0),
        ([TIMED_OUT, TIMED_OUT, TIMED_OUT], 0, 3),  # a start that takes longer than the allocation
        ([TIMED_OUT, AT[9], DIED_WITH_ITS_ALLOCATION], 1, 3),  # one count, whatever ended them
        ([PREEMPTED_AT_9, PREEMPTED_AT_9, PREEMPTED_AT_9], 0, 0),
        ([AT[9], PREEMPTED_AT_9, AT[9]], 1, 2),  # a preemption counts neither way
        ([AT[9], replace(PREEMPTED_AT_9, step=20), AT[20]], 1, 1),
    ],
)
def test_attempts_without_progress_are_counted_by_one_rule(verdicts: list[Verdict], failures: int, idle: int) -> None:
    history = measure_history(verdicts, BEFORE, restarts_allowed=5)
    assert (history.restarts_used, history.without_progress) == (failures, idle)


@pytest.mark.parametrize(("saved", "idle"), [([7.0, 7.0, 7.0], 3), ([7.0, 8.0, 8.0], 1), ([8.0, 9.0, 10.0], 0)])
def test_a_newer_checkpoint_is_progress_of_a_script_that_records_no_step(saved: list[float], idle: int) -> None:
    verdicts = [replace(TIMED_OUT, step=0, saved=time) for time in saved]
    assert measure_history(verdicts, [replace(AT[0], saved=7.0)], 0).without_progress == idle


FIRST, OTHER = (replace(AT[9], exception=text) for text in ("ValueError: bad at a.py:3", "ValueError: bad at a.py:4"))


@pytest.mark.parametrize(
    ("verdicts", "repeated"),
    [
        ([FIRST], False),
        ([FIRST, FIRST], True),
        ([FIRST, OTHER], False),
        ([FIRST, PREEMPTED_AT_9, FIRST], True),
        ([FIRST, replace(FIRST, step=10)], False),  # after new steps, it may be in the next ones
        ([replace(FIRST, step=10), replace(FIRST, step=10)], False),
        ([AT[9], AT[9]], False),  # no exception is known
    ],
)
def test_an_exception_is_repeated_if_it_ended_two_attempts_without_a_step(
    verdicts: list[Verdict], repeated: bool
) -> None:
    assert measure_history(verdicts, BEFORE, restarts_allowed=5).is_repeated is repeated


def test_an_attempt_whose_verdict_is_missing_counts_by_what_its_nodes_recorded(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("r", "/r", "/", "python3", ()))
    write_json(run.record, RunRecord.new("r", "llm-tiny", "local", "local", 1.0, 1))
    for number in (1, 2, 3):
        run.attempt(number).node(0).root.mkdir(parents=True)
    write_json(run.attempt(1).node(0).end, NodeEnd(1, "rank 0 ended", cause=Cause.SIGNAL))
    verdict = Verdict(State.FAILED, "broken")
    history = read_history(run, plan, run.attempts()[-1], verdict)
    assert (history.restarts_used, history.without_progress) == (2, 3)
    write_json(run.attempt(2).verdict, replace(verdict, step=4))
    assert read_history(run, plan, run.attempts()[-1], verdict).without_progress == 1


def test_progress_is_read_from_steps_and_only_without_them_from_checkpoints(tmp_path: Path) -> None:
    run, verdict = RunPaths(tmp_path), Verdict(State.FAILED, "broken")
    assert with_progress(verdict, run) == verdict
    run.checkpoints.mkdir()
    (run.checkpoints / "last.pt").touch()
    saved = (run.checkpoints / "last.pt").stat().st_mtime
    assert with_progress(verdict, run).saved >= saved
    run.metrics.write_text('{"step": 7, "loss": 1.0}\n')
    assert with_progress(verdict, run) == replace(verdict, step=7)
