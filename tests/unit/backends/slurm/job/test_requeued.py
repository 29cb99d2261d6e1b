"""What a requeued job makes of the attempts that ended with its earlier allocations."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job.agents import OwnJob, SlurmAgents
from fsdpctl.backends.slurm.job.requeued import close_open_attempts, find_end, give_up
from fsdpctl.contract import Cause, State, StopReason
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once, read_control_file, request_stop
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import Allocation
from fsdpctl.contract.records import NodeEnd, Outcome
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.evidence import read_verdict
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise.notify import Notifier, occasions_of

HOST = SubmitHost("r", "/r", "/", sys.executable, ())
PLAN = build_plan(load_profile("local"), load_job("llm-tiny"), HOST)
SLURM_PLAN = build_plan(load_profile("slurm-h100"), load_job("llm-tiny"), HOST)


def begin(run: RunPaths, stop: StopReason | None) -> None:
    """An attempt of which nothing is left but its first files: Slurm has killed supervisor and agents at once."""
    attempt = run.attempt(len(run.attempts()) + 1)
    attempt.node(0).root.mkdir(parents=True)
    write_json(attempt.allocation, Allocation("7", attempt.number - 1, ()))
    if stop is not None:
        create_once(attempt.stop, stop)


@pytest.mark.parametrize(
    ("stop", "cause", "gives_up"),
    [
        (None, Cause.LOST, [False, False, True]),
        (StopReason.TIME, Cause.TIME_LIMIT, [False, False, True]),
        (StopReason.PREEMPT, Cause.PREEMPTION, [False, False, False]),
    ],
)
def test_a_job_that_slurm_requeues_without_progress_gives_up(
    tmp_path: Path, stop: StopReason | None, cause: Cause, gives_up: list[bool]
) -> None:
    run = RunPaths(tmp_path)
    write_json(run.record, RunRecord.new("r", "llm-tiny", "slurm", "slurm", 1.0, 1))
    assert not give_up(run, PLAN, 1, Notifier(run, PLAN)), "nothing has run yet"
    for has_ended in gives_up:
        begin(run, stop)
        close_open_attempts(run, PLAN, 1, Notifier(run, PLAN))
        assert give_up(run, PLAN, 1, Notifier(run, PLAN)) is has_ended
        verdict = read_verdict(run.attempts()[-1])
        assert verdict is not None
        assert (verdict.cause, verdict.restart) == (cause, not has_ended)
        assert verdict.state is (State.FAILED if has_ended else State.STOPPED)
        assert verdict.reason.endswith("3 attempts in a row made no step, so it does not try again") is has_ended


def open_attempt(run: RunPaths) -> AttemptPaths | None:
    """Begin as the supervisor of a requeued job does."""
    return SlurmAgents(run, SLURM_PLAN, OwnJob("7", 1, ("node1",), None)).open_attempt()


def record(run: RunPaths, *, first_attempt: int = 1) -> None:
    submission = Submission("submit", 1.0, 1, first_attempt)
    write_json(run.record, replace(RunRecord.new("r", "r", "slurm", "slurm", 1.0, 1), submissions=(submission,)))


SAVED = Outcome("stopped", 9, "step-00000009")
BROKEN = NodeEnd(1, "rank 0 ended with signal 9 (SIGKILL)", 0, cause=Cause.SIGNAL)


@pytest.mark.parametrize("is_preempted", [False, True])
@pytest.mark.parametrize(
    ("left", "state"),
    [(None, State.STOPPED), (SAVED, State.STOPPED), (BROKEN, State.FAILED)],
    ids=["", "saved", "bad"],
)
def test_a_run_that_a_user_has_stopped_does_not_train_again_in_its_requeued_job(
    left: Outcome | NodeEnd | None, state: State, is_preempted: bool, tmp_path: Path
) -> None:
    """Slurm has killed its supervisor: the save took longer than the grace of a preemption, or a node has failed."""
    run = RunPaths(tmp_path)
    record(run)
    begin(run, StopReason.PREEMPT if is_preempted else None)
    request_stop(run.attempt(1).stop)
    if left is not None:
        write_json(run.attempt(1).outcome if isinstance(left, Outcome) else run.attempt(1).node(0).end, left)
    for _ in range(2):
        assert open_attempt(run) is None
        assert run.attempts() == [run.attempt(1)]
        verdict = read_verdict(run.attempt(1))
        assert verdict is not None and (verdict.state, verdict.restart) == (state, False)
        assert "requeued" not in verdict.reason
    record(run, first_attempt=2)  # by `resume`
    assert open_attempt(run) == run.attempt(2)


@pytest.mark.parametrize(
    ("name", "text", "state"), [("stop", "user", State.STOPPED), ("abort", "cancel", State.CANCELLED)]
)
def test_a_request_that_came_while_the_job_was_requeued_ends_the_run(
    name: str, text: str, state: State, tmp_path: Path
) -> None:
    run = RunPaths(tmp_path)
    record(run)
    begin(run, StopReason.PREEMPT)
    write_json(run.attempt(1).verdict, Verdict(State.STOPPED, "preempted", restart=True, cause=Cause.PREEMPTION))
    with open(run.attempt(1).root / name, "a") as file:
        file.write(f"\n{text} by hand\n")
    assert open_attempt(run) is None
    verdict = read_verdict(run.attempt(1))
    assert verdict is not None and (verdict.state, verdict.restart) == (state, False)


def test_a_stop_that_comes_while_a_requeued_job_begins_its_attempt_is_obeyed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunPaths(tmp_path)
    record(run)
    begin(run, None)
    monkeypatch.setattr(SlurmAgents, "describe_nodes", lambda *_: request_stop(run.attempt(1).stop))
    assert open_attempt(run) == run.attempt(2)
    request = read_control_file(run.attempt(2).stop)
    assert request is not None and request.is_users_stop


def test_a_new_submission_counts_anew(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    write_json(run.record, RunRecord.new("r", "llm-tiny", "slurm", "slurm", 1.0, 1))
    for _ in range(3):
        begin(run, None)
    close_open_attempts(run, PLAN, 1, Notifier(run, PLAN))
    assert give_up(run, PLAN, 1, Notifier(run, PLAN))
    assert not give_up(run, PLAN, 4, Notifier(run, PLAN))


def record_sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, tuple[str, ...]]]:
    """Return the list to which each notice adds its attempt and occasions."""
    sent: list[tuple[int, tuple[str, ...]]] = []

    def send(_: Notifier, attempt: AttemptPaths, verdict: Verdict, *, has_failed: bool = False) -> None:
        sent.append((attempt.number, occasions_of(verdict, has_failed=has_failed)))

    monkeypatch.setattr(Notifier, "verdict", send)
    return sent


def test_of_an_attempt_before_a_resume_no_notice_is_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, sent = RunPaths(tmp_path), record_sent(monkeypatch)
    record(run, first_attempt=2)
    for _ in range(2):
        begin(run, None)
    close_open_attempts(run, PLAN, 2, Notifier(run, PLAN))
    verdict = read_verdict(run.attempt(1))
    assert verdict is not None and (verdict.state, verdict.restart) == (State.LOST, False)
    assert sent == [(2, ("failure",))]


@pytest.mark.parametrize(
    ("stop", "occasions"),
    [
        (None, [("failure",), ("failure",), ("end", "failure")]),
        (StopReason.PREEMPT, [("preemption",), ("preemption",), ("preemption",)]),
        (StopReason.TIME, [(), (), ("end", "failure")]),
    ],
)
def test_an_attempt_that_ended_with_its_allocation_sends_one_notice(
    stop: StopReason | None, occasions: list[tuple[str, ...]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first node has died, and the supervisor with it; without a stop before it that is a failure."""
    run, sent = RunPaths(tmp_path), record_sent(monkeypatch)
    record(run)
    for _ in occasions:
        begin(run, stop)
        find_end(run, PLAN, Notifier(run, PLAN))
    assert sent == list(enumerate(occasions, 1))
