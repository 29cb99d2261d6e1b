"""What a requeued job makes of the attempts that ended with its earlier allocations."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job.agents import close_open_attempts, give_up
from fsdpctl.contract import Cause, State, StopReason
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import Allocation
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.evidence import read_verdict
from fsdpctl.runs.record import RunRecord
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.supervise.notify import Notifier

PLAN = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("r", "/r", "/", sys.executable, ()))


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
        close_open_attempts(run, 1, 1, Notifier(run, PLAN))
        assert give_up(run, PLAN, 1, Notifier(run, PLAN)) is has_ended
        verdict = read_verdict(run.attempts()[-1])
        assert verdict is not None
        assert (verdict.cause, verdict.restart) == (cause, not has_ended)
        assert verdict.state is (State.FAILED if has_ended else State.STOPPED)
        assert verdict.reason.endswith("3 attempts in a row made no step, so it does not try again") is has_ended


def test_a_new_submission_counts_anew(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    write_json(run.record, RunRecord.new("r", "llm-tiny", "slurm", "slurm", 1.0, 1))
    for _ in range(3):
        begin(run, None)
    close_open_attempts(run, 1, 1, Notifier(run, PLAN))
    assert give_up(run, PLAN, 1, Notifier(run, PLAN))
    assert not give_up(run, PLAN, 4, Notifier(run, PLAN))
