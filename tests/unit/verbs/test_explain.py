"""Which attempt explains a run, and what is explained in each state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, Phase, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.explain.categories import Category
from fsdpctl.explain.explanation import Confidence
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.verdict import Verdict
from fsdpctl.verbs.explain import explain_run
from fsdpctl.verbs.state import Situation

RECORD = RunRecord.new("r-aaaa", "r", "local", "local", 1.0, 1)
FAILED = Situation(State.FAILED, Phase.ENDED, "rank 0 on node 0: KeyError: 'x'", Cause.EXIT_CODE)


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run whose only attempt ended by an exception of rank 0."""
    run = RunPaths(tmp_path / "r-aaaa")
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True)
    node.rank_log(0).touch()
    write_json(node.rank_error(0), RankError(0, 0, 1.0, "KeyError: 'x'", "", kinds=("KeyError", "LookupError")))
    write_json(node.end, NodeEnd(1, FAILED.reason, 0, 1.0, Cause.EXIT_CODE))
    write_json(run.attempt(1).verdict, Verdict(State.FAILED, FAILED.reason, cause=Cause.EXIT_CODE))
    return run


def test_the_newest_attempt_explains_a_failed_run(run: RunPaths) -> None:
    found = explain_run(RunFacts(run, RECORD), FAILED)
    assert found.diagnosis is not None and found.diagnosis.category is Category.EXCEPTION
    assert [(rank.rank, rank.message) for rank in found.ranks] == [(0, "KeyError: 'x'")]
    assert [past.number for past in found.history] == [1]


def test_an_attempt_of_an_older_submission_does_not(run: RunPaths) -> None:
    newer = replace(RECORD, submissions=(replace(RECORD.submissions[0], first_attempt=2),))
    refused = Situation(State.FAILED, Phase.ENDED, "Slurm: NODE_FAIL", Cause.UNKNOWN)
    found = explain_run(RunFacts(run, newer), refused)
    assert found.diagnosis is not None and found.diagnosis.confidence is Confidence.UNKNOWN
    assert (found.ranks, found.attempt, found.diagnosis.evidence) == ((), 0, ("Slurm: NODE_FAIL",))


@pytest.mark.parametrize(
    ("state", "cause", "category"),
    [
        (State.SUCCEEDED, Cause.FINISHED, None),
        (State.CANCELLED, Cause.CANCEL, Category.CANCELLED),
        (State.STOPPED, Cause.PREEMPTION, Category.PREEMPTION),
        (State.STOPPED, Cause.TIME_LIMIT, Category.TIME_LIMIT),
        (State.STOPPED, Cause.UNKNOWN, Category.CANCELLED),
        (State.LOST, Cause.UNKNOWN, Category.NODE_FAILURE),
        (State.RESTARTING, Cause.EXIT_CODE, Category.EXCEPTION),
    ],
)
def test_the_cause_of_the_state_decides(run: RunPaths, state: State, cause: Cause, category: Category | None) -> None:
    found = explain_run(RunFacts(run, RECORD), Situation(state, Phase.ENDED, "x", cause))
    assert (found.diagnosis.category if found.diagnosis is not None else None) == category
    blamed = [rank.rank for rank in found.ranks if rank.role == "initiating"]
    assert blamed == ([0] if category is Category.EXCEPTION else [])


def test_a_queued_run_waits_for_what_its_state_names(run: RunPaths) -> None:
    queued = Situation(State.QUEUED, Phase.QUEUED, "waiting for the scheduler: Resources")
    found = explain_run(RunFacts(run, RECORD), queued)
    assert found.diagnosis is not None and found.diagnosis.summary == "waiting for the scheduler: Resources"
