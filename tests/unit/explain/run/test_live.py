"""What a living run waits for; None while it makes progress."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import Phase
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.node_report import Activity, NodeReport, RankReport, write_report
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.rank_progress import RankProgress, Section
from fsdpctl.contract.records import NodeReady, ProcessIdentity, RankError
from fsdpctl.explain.categories import Category
from fsdpctl.explain.run.live import explain_live
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.specs.load import parse_job, parse_profile

MOVES = RankReport(0, RankProgress(Section.SCRIPT, 7, 8), 1.0)
WAITS = replace(MOVES, rank=1, sign_s=90.0, idle_s=90.0, activity=Activity.PEERS, where="torch/x.py:1 all_reduce")
STOPPED = replace(MOVES, rank=0, sign_s=90.0, state="T")


@pytest.fixture
def plan(tmp_path: Path) -> LaunchPlan:
    profile = parse_profile("name: local\nbackend: local", "p")
    job = parse_job("name: mine\nnodes: 2\nprocs_per_node: 1\nentrypoint: {module: m}", "j")
    return build_plan(profile, job, SubmitHost("mine-aaaa", str(tmp_path), "/here", "python3", ()))


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptFacts:
    attempt = RunPaths(tmp_path).attempt(1)
    for number in (0, 1):
        attempt.node(number).root.mkdir(parents=True)
    return AttemptFacts(attempt)


def report(attempt: AttemptFacts, *ranks: RankReport) -> None:
    for number, rank in enumerate(ranks):
        write_report(attempt.paths.node(number).heartbeat, NodeReport(1, (replace(rank, rank=number),)))


def test_a_run_that_makes_progress_needs_no_explanation(attempt: AttemptFacts, plan: LaunchPlan) -> None:
    report(attempt, MOVES, WAITS)
    assert explain_live(attempt, plan, Phase.TRAINING, "training") is None


def test_the_rank_for_which_the_others_wait_is_named_with_the_places_of_all(
    attempt: AttemptFacts, plan: LaunchPlan
) -> None:
    report(attempt, STOPPED, WAITS)
    found = explain_live(attempt, plan, Phase.TRAINING, "training")
    assert found is not None and found.category is Category.HANG
    assert "rank 0 hangs: its process is stopped" in found.summary
    assert "rank 1 on local1 waits for its peers at torch/x.py:1 all_reduce, no progress for 90 s" in found.evidence


def test_a_rank_that_has_failed_is_named_before_the_attempt_has_ended(attempt: AttemptFacts, plan: LaunchPlan) -> None:
    report(attempt, MOVES, MOVES)
    node = attempt.paths.node(1)
    node.rank_log(1).touch()
    write_json(node.rank_error(1), RankError(1, 1, 5.0, "KeyError: 'labels'", "", kinds=("KeyError",)))
    found = explain_live(attempt, plan, Phase.TRAINING, "training")
    assert found is not None and found.category is Category.EXCEPTION
    assert found.summary == "rank 1 on node 1: KeyError: 'labels'; the attempt has not ended yet."


def test_at_the_start_the_nodes_are_named_that_are_not_ready(attempt: AttemptFacts, plan: LaunchPlan) -> None:
    write_json(attempt.paths.node(1).agent, ProcessIdentity("h", 1, 1, "boot", 1.0))
    found = explain_live(attempt, plan, Phase.STARTING, "starting")
    assert found is not None and found.evidence == (
        "node 0 (local0): its agent has not started",
        "node 1 (local1): not ready yet; its agent runs",
    )
    write_json(attempt.paths.node(0).agent, ProcessIdentity("h", 1, 1, "boot", 1.0))
    for number in (0, 1):
        write_json(attempt.paths.node(number).ready, NodeReady("h"))
    found = explain_live(attempt, plan, Phase.STARTING, "starting")
    assert found is not None and found.evidence == ()


@pytest.mark.parametrize("phase", [Phase.QUEUED, Phase.WAITING, Phase.STOPPING, Phase.UNSUPERVISED])
def test_in_other_phases_the_state_has_the_reason(phase: Phase, attempt: AttemptFacts, plan: LaunchPlan) -> None:
    found = explain_live(attempt, plan, phase, "waits for hosts")
    assert found is not None and (found.summary, found.evidence) == ("waits for hosts", ())
    assert explain_live(None, None, phase, "waits for hosts") == found


def test_the_rank_that_the_others_wait_for_is_named_before_it_counts_as_a_hang(
    attempt: AttemptFacts, plan: LaunchPlan
) -> None:
    waits = replace(WAITS, sign_s=20.0, idle_s=20.0)
    report(attempt, waits, replace(waits, activity=Activity.WORKING, where="fit.py:3 read"))
    found = explain_live(attempt, plan, Phase.TRAINING, "training")
    assert found is not None
    assert "the other ranks wait for rank 1 on local1: in script after step 7 at fit.py:3 read" in found.summary


def test_at_the_start_of_a_script_the_rank_is_named_for_which_the_others_wait(
    attempt: AttemptFacts, plan: LaunchPlan
) -> None:
    waits = replace(WAITS, progress=None)
    report(attempt, replace(waits, activity=Activity.WORKING, where="fit.py:3 read"), waits)
    found = explain_live(attempt, plan, Phase.TRAINING, "training")
    assert found is not None and "the other ranks wait for rank 0 on local0" in found.summary
