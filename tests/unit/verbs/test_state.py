"""The state of a run without a living process, whose last verdict a full disk prevented."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.backends.base import View
from fsdpctl.contract import State, StopReason
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import create_once
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.verdict import Verdict
from fsdpctl.verbs.state import derive_state

RECORD = RunRecord.new("r-aaaa", "r", "local", "local", 1.0, 1)
NOTHING = View("none")


def derived(attempt: AttemptPaths, view: View = NOTHING) -> tuple[State, str]:
    found = derive_state(RunFacts(RunPaths(attempt.run_dir), RECORD), view)
    return found.state, found.reason


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    attempt = RunPaths(tmp_path).attempt(1)
    attempt.root.mkdir(parents=True)
    return attempt


def test_a_run_that_was_to_restart_has_the_state_of_its_control_files(attempt: AttemptPaths) -> None:
    write_json(attempt.verdict, Verdict(State.LOST, "gone", restart=True))
    assert derived(attempt) == (State.LOST, "gone")
    create_once(attempt.stop, "user")
    assert derived(attempt) == (State.STOPPED, "stopped (user) between two attempts")
    create_once(attempt.abort, "cancel", "fsdpctl cancel")
    assert derived(attempt) == (State.CANCELLED, "fsdpctl cancel")


@pytest.mark.parametrize("cause", [StopReason.TIME, StopReason.PREEMPT])
def test_a_stop_of_the_scheduler_is_no_end_of_a_run_that_was_to_restart(
    cause: StopReason, attempt: AttemptPaths
) -> None:
    write_json(attempt.verdict, Verdict(State.STOPPED, "asks for a requeue", restart=True))
    create_once(attempt.stop, cause)
    assert derived(attempt) == (State.STOPPED, "asks for a requeue")


def test_a_run_that_had_ended_is_not_changed_by_a_late_control_file(attempt: AttemptPaths) -> None:
    write_json(attempt.verdict, Verdict(State.LOST, "gone"))
    create_once(attempt.stop, "user")
    assert derived(attempt) == (State.LOST, "gone")


def test_an_attempt_that_was_lost_while_a_user_stopped_it_stays_lost_in_a_job_that_slurm_requeued(
    attempt: AttemptPaths,
) -> None:
    """The job is removed from the queue, or begins again and ends at once: neither is the end of the attempt."""
    write_json(attempt.verdict, Verdict(State.LOST, "gone"))
    removed = View("none", "stopped (user) while it waited in the queue", State.STOPPED)
    assert derived(attempt, removed)[0] is State.STOPPED
    create_once(attempt.stop, "user")
    for view in (removed, View("none", "job 7 is COMPLETED in Slurm", State.LOST)):
        assert derived(attempt, view) == (State.LOST, "gone")
    assert derived(attempt, View("none", "cancelled", State.CANCELLED)) == (State.CANCELLED, "cancelled")


def test_a_run_that_was_cancelled_before_any_agent_was_up(attempt: AttemptPaths) -> None:
    create_once(attempt.abort, "cancel", "fsdpctl cancel")
    assert derived(attempt) == (State.CANCELLED, "fsdpctl cancel")


def test_a_run_that_was_stopped_before_any_agent_was_up(attempt: AttemptPaths) -> None:
    assert derived(attempt)[0] is State.LOST
    create_once(attempt.stop, "user")
    state, reason = derived(attempt)
    assert (state, reason) == (State.STOPPED, "stopped (user); no agent has reported how it ended")
