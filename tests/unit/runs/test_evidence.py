from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.observe import is_judged
from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import AttemptFacts, RunFacts
from fsdpctl.runs.metrics import newest_step, read_metrics, recent_metrics
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.decide import judge
from tests.testbed.disks import Mount


@pytest.mark.parametrize("step", ["x", "7", 7.5, float("inf"), None, True, [7], {}])
def test_a_line_with_an_invalid_step_is_skipped(step: object, tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    lines = [{"step": 6, "loss": 2.0}, {"step": step, "loss": 1.0}]
    run.metrics.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert newest_step(run) == (6, 0.0)
    assert recent_metrics(run.metrics, 9) == list(read_metrics(run.metrics)) == lines[:1]


def test_only_for_the_bundled_trainer_it_is_known_whether_there_is_a_checkpoint(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert AttemptFacts(run.attempt(1)).end(1).has_older is None
    run.trainer_config.write_text("{}")
    assert AttemptFacts(run.attempt(1)).end(1).has_older is False
    (run.checkpoints / "step-00000007.tmp-1-abcd").mkdir(parents=True)
    assert AttemptFacts(run.attempt(1)).end(1).has_older is False
    (run.checkpoints / "step-00000007").mkdir()
    assert AttemptFacts(run.attempt(1)).end(1).has_older is True


def test_a_full_disk_is_reported_for_an_agent_without_an_exit_record(small_disk: Mount) -> None:
    run = RunPaths(small_disk.path)
    assert judge(AttemptFacts(run.attempt(1)).end(1)).reason == "the agent of node 0 vanished without an exit record"
    small_disk.fill()
    reason = judge(AttemptFacts(run.attempt(1)).end(1)).reason
    assert reason == f"the agent of node 0 vanished without an exit record; no space is left on the disk of {run.root}"


def test_lines_without_a_step_stay(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    run.metrics.write_text('{"loss": 2.0}\n')
    assert newest_step(run) == (0, 0.0)
    assert list(read_metrics(run.metrics)) == [{"loss": 2.0}]


@pytest.mark.parametrize(
    ("first_attempt", "verdict", "final"),
    [
        (1, Verdict(State.SUCCEEDED, ""), State.SUCCEEDED),
        (1, Verdict(State.LOST, ""), State.LOST),
        (1, Verdict(State.STOPPED, "", restart=True), None),
        (1, None, None),
        (2, Verdict(State.SUCCEEDED, ""), None),  # of an older submission: the newest one has no attempt yet
    ],
)
def test_a_run_has_ended_by_the_verdict_of_its_newest_submission(
    first_attempt: int, verdict: Verdict | None, final: State | None, tmp_path: Path
) -> None:
    run = RunPaths(tmp_path)
    record = RunRecord.new("r", "j", "p", "slurm", 1.0, 1)
    write_json(run.record, replace(record, submissions=(Submission("submit", 1.0, 1, first_attempt),)))
    assert RunFacts(run).final_state is None
    run.attempt(1).root.mkdir(parents=True)
    if verdict is not None:
        write_json(run.attempt(1).verdict, verdict)
    facts = RunFacts(run)
    assert (facts.final_state, facts.newest_of_submission is None) == (final, first_attempt == 2)
    assert is_judged(facts) is (final is State.SUCCEEDED)
