"""Which attempts of a submission count as failures, and which as attempts without progress, row by row."""

from __future__ import annotations

import os
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
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise.history import Baseline, find_baseline, measure_history, read_history

AT = [Verdict(State.FAILED, "", step=step) for step in range(30)]
TIMED_OUT = Verdict(State.STOPPED, "", restart=True, step=9, cause=Cause.TIME_LIMIT)
PREEMPTED_AT_9 = replace(TIMED_OUT, cause=Cause.PREEMPTION)
DIED_WITH_ITS_ALLOCATION = replace(TIMED_OUT, cause=Cause.LOST)
BEFORE = {1: AT[3], 2: AT[9]}
SUBMITTED = Submission("submit", 1.0, 1, 1)
BASELINE = find_baseline([SUBMITTED, Submission("resume", 2.0, 1, 3)], BEFORE)


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
    history = measure_history(verdicts, BASELINE, restarts_allowed=5)
    assert (history.restarts_used, history.without_progress) == (failures, idle)


@pytest.mark.parametrize(("saved", "idle"), [([7.0, 7.0, 7.0], 3), ([7.0, 8.0, 8.0], 1), ([8.0, 9.0, 10.0], 0)])
def test_a_newer_checkpoint_is_progress_of_a_script_that_records_no_step(saved: list[float], idle: int) -> None:
    verdicts = [replace(TIMED_OUT, step=0, saved=time) for time in saved]
    assert measure_history(verdicts, Baseline(saved=7.0), 0).without_progress == idle


def reached(step: int, *, ended: float = 0.0) -> Verdict:
    """Return the verdict on an attempt that ended at its time limit."""
    return replace(TIMED_OUT, step=step, step_time=ended)


REWIND = Submission("resume", 100.0, 1, first_attempt=3, step=30)
AGAIN = Submission("resume", 200.0, 1, first_attempt=5)
BACK_AGAIN = Submission("resume", 300.0, 1, first_attempt=5, step=20)


@pytest.mark.parametrize(
    ("submissions", "steps", "idle"),
    [
        ([REWIND], [50, 50, 33, 36, 39], 0),  # below what it had reached before
        ([REWIND], [50, 50, 30, 30, 30], 3),
        ([REWIND], [50, 50, 50, 50], 2),  # they ended before the trainer had begun: the newest line is an older one
        ([REWIND], [50, 50, 50, 33, 33], 1),
        ([REWIND, AGAIN], [50, 50, 50, 33, 36, 39], 0),
        ([REWIND, AGAIN], [50, 50, 33, 36, 36, 36, 36], 3),
        ([REWIND, BACK_AGAIN], [50, 50, 33, 36, 36, 23, 26], 0),
    ],
)
@pytest.mark.parametrize("has_times", [False, True])
def test_after_a_rewind_progress_is_counted_from_its_step(
    submissions: list[Submission], steps: list[int], idle: int, has_times: bool
) -> None:
    """The first steps are of the attempts before the newest submission."""
    verdicts = {n: reached(step, ended=float(step) if has_times else 0.0) for n, step in enumerate(steps, start=1)}
    first = submissions[-1].first_attempt
    baseline = find_baseline([SUBMITTED, *submissions], {n: found for n, found in verdicts.items() if n < first})
    own = [found for n, found in verdicts.items() if n >= first]
    assert measure_history(own, baseline, 0).without_progress == idle


def test_moving_newer_checkpoints_away_is_no_progress() -> None:
    baseline = find_baseline([SUBMITTED, REWIND], {1: replace(AT[0], saved=50.0)})
    own = [replace(TIMED_OUT, step=0, saved=time) for time in (99.0, 99.0, 120.0, 120.0)]
    assert [measure_history(own[:count], baseline, 0).without_progress for count in (1, 2, 3, 4)] == [1, 2, 0, 1]


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
    assert measure_history(verdicts, BASELINE, restarts_allowed=5).is_repeated is repeated


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


def test_time_limits_after_a_rewind_do_not_end_a_run_that_saves(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("r", "/r", "/", "python3", ()))
    record = RunRecord.new("r", "llm-tiny", "slurm", "slurm", 1.0, 1)
    write_json(run.record, replace(record, submissions=(*record.submissions, Submission("resume", 9.0, 1, 2, 30_000))))
    for number, step in enumerate((50_000, 33_000, 36_000, 39_000), start=1):
        attempt, verdict = run.attempt(number), replace(TIMED_OUT, step=step)
        attempt.root.mkdir(parents=True)
        assert number == 1 or not read_history(run, plan, attempt, verdict).is_stuck
        write_json(attempt.verdict, verdict)


def test_progress_is_read_from_steps_and_only_without_them_from_checkpoints(tmp_path: Path) -> None:
    run, verdict = RunPaths(tmp_path), Verdict(State.FAILED, "broken")
    assert with_progress(verdict, run) == verdict
    run.checkpoints.mkdir()
    (run.checkpoints / "last.pt").touch()
    saved = (run.checkpoints / "last.pt").stat().st_mtime
    assert with_progress(verdict, run).saved >= saved
    deep = run.checkpoints / "first/second/last.pt"
    deep.parent.mkdir(parents=True)
    deep.touch()
    os.utime(deep, (0, saved + 60))  # replaced in place: no directory has changed
    assert with_progress(verdict, run).saved == saved + 60
    run.metrics.write_text('{"step": 7, "loss": 1.0}\n')
    assert with_progress(verdict, run) == replace(verdict, step=7)
