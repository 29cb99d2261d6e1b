"""End a Slurm run through its directory, while Slurm does not answer or requeues its job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm import end
from fsdpctl.backends.slurm.end import cancel_job, stop_jobs
from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref, read_ref
from fsdpctl.backends.slurm.lookup import NoAnswerError
from fsdpctl.backends.slurm.queue import QueuedJob
from fsdpctl.contract import AbortReason, State, StopReason
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once, read_control_file
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import LaunchError
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.store import read_record
from fsdpctl.runs.verdict import Verdict
from fsdpctl.verbs.stop import ignore

FAILED = Verdict(State.FAILED, "node 0: rank 0 ended with signal 9 (SIGKILL)")
CANCELLED = Verdict(State.CANCELLED, "fsdpctl cancel")
RESTARTS = Verdict(State.FAILED, FAILED.reason, restart=True)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunPaths:
    """A run whose first attempt is being ended for a fault, of a Slurm that does not answer."""

    def refuse(*_: object) -> None:
        raise NoAnswerError("Slurm does not answer")

    monkeypatch.setattr(end, "living_job", refuse)
    monkeypatch.setattr(end, "living_jobs", refuse)
    run = RunPaths(tmp_path / "r-aaaa")
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.record, RunRecord.new("r-aaaa", "r", "slurm", "slurm", 1.0, 1))
    append_ref(run, SlurmRef(1, 1.0, "7"))
    create_once(run.attempt(1).abort, AbortReason.FAULT, "node 0: out of memory")
    return run


def is_asked_to_end(run: RunPaths, attempt: int) -> bool:
    return (request := read_control_file(run.attempt(attempt).abort)) is not None and request.is_cancel


def supervise(run: RunPaths, verdicts: list[Verdict]) -> Callable[[Callable[[], bool], float], bool]:
    """Return what waits for a run whose attempts end with these verdicts between two looks."""

    def wait(has_ended: Callable[[], bool], _: float) -> bool:
        for attempt, verdict in enumerate(verdicts, start=1):
            run.attempt(attempt).root.mkdir(exist_ok=True)
            assert not has_ended()
            assert is_asked_to_end(run, attempt)
            write_json(run.attempt(attempt).verdict, verdict)
        return has_ended()

    return wait


@pytest.mark.parametrize(
    ("verdicts", "is_cancelled"),
    [([CANCELLED], True), ([RESTARTS, CANCELLED], True), ([FAILED], False), ([RESTARTS, FAILED], False)],
)
def test_a_cancel_counts_only_if_it_ended_the_run(
    verdicts: list[Verdict], is_cancelled: bool, run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end, "wait_for", supervise(run, verdicts))
    assert cancel_job(run, ignore) is is_cancelled
    assert (ref := read_ref(run)) is not None
    assert ref.final is (State.CANCELLED if is_cancelled else None)


def test_a_run_that_restarts_is_not_cancelled_yet(run: RunPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(end, "wait_for", supervise(run, [RESTARTS]))
    with pytest.raises(LaunchError, match="r-aaaa is being cancelled"):
        cancel_job(run, ignore)
    assert (ref := read_ref(run)) is not None and ref.final is None


def test_a_cancel_replaces_the_abort_of_a_fault_before_slurm_ends_the_job(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [QueuedJob("7", "RUNNING", "None", "N/A", "N/A", "r-aaaa")]

    def scancel(arguments: list[str]) -> None:
        assert is_asked_to_end(run, 1) and arguments == ["7"]
        jobs.clear()

    monkeypatch.setattr(end, "living_job", lambda _: next(iter(jobs), None))
    monkeypatch.setattr(end, "scancel", scancel)
    assert cancel_job(run, ignore)


@pytest.mark.parametrize("does_answer", [False, True])
@pytest.mark.parametrize("verdict", [None, RESTARTS])
def test_a_stop_is_asked_of_an_attempt_after_which_the_run_comes_back(
    verdict: Verdict | None, does_answer: bool, run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its job, which Slurm is about to requeue, finds the request."""
    if does_answer:
        job = QueuedJob("7", "COMPLETING", "None", "N/A", "N/A", "r-aaaa")
        monkeypatch.setattr(end, "living_jobs", lambda _: {run: job})
    if verdict is not None:
        write_json(run.attempt(1).verdict, verdict)
    create_once(run.attempt(1).stop, StopReason.PREEMPT, "Slurm takes the nodes back")
    assert stop_jobs([run], ignore) == [run]
    assert (request := read_control_file(run.attempt(1).stop)) is not None and request.is_users_stop


def test_a_stop_of_an_older_submission_is_not_asked(run: RunPaths) -> None:
    write_json(run.attempt(1).verdict, RESTARTS)
    resumed = Submission("resume", 2.0, 1, first_attempt=2)
    write_json(run.record, replace(read_record(run), submissions=(*read_record(run).submissions, resumed)))
    with pytest.raises(NoAnswerError):
        stop_jobs([run], ignore)
    assert not run.attempt(1).stop.exists()
