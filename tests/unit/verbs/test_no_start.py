"""The process that waits for a submission to start."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref
from fsdpctl.contract import State
from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.notify import Notice, NotifyTarget
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.store import read_record
from fsdpctl.specs.load import load_job, load_profile
from fsdpctl.verbs.no_start import has_started, watch


def make_run(root: Path, *targets: NotifyTarget) -> RunPaths:
    run = RunPaths(root)
    plan = build_plan(load_profile("local"), load_job("llm-tiny"), SubmitHost("r", str(root), "/", sys.executable, ()))
    write_json(run.plan, replace(plan, notify=targets))
    write_json(run.record, RunRecord.new("r", "llm-tiny", "local", "local", 1e9, 1))
    return run


def test_each_target_gets_one_notice_when_its_time_is_over(tmp_path: Path) -> None:
    first = NotifyTarget(("no_start",), 0, command=("first",))
    second = NotifyTarget(("end", "no_start"), 1, command=("second",))
    run = make_run(tmp_path, second, first, NotifyTarget(("end",), 0, command=("other",)))
    assert read_json(LaunchPlan, run.plan).notify[1] == first
    run.waiting.write_text("waiting for node b\n")
    sent: list[tuple[str, Notice]] = []

    def send(targets: Sequence[NotifyTarget], notice: Notice) -> None:
        sent.extend((target.command[0], notice) for target in targets)

    watch(run, 1, send)
    assert [name for name, _ in sent] == ["first", "second"]
    assert sent[1][1].occasions == ("no_start",)
    assert sent[1][1].reason == "not started within 0 minutes; waiting for node b"


def test_a_start_and_an_end_and_a_newer_submission_end_the_wait(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    run.attempt(1).root.mkdir(parents=True)
    assert not has_started(run, 1, 1)
    resume(run, first_attempt=1)  # it was stopped in the queue
    assert has_started(run, 1, 1)
    assert not has_started(run, 2, 1)
    resume(run, first_attempt=2)
    assert not has_started(run, 3, 2)
    run.attempt(2).root.mkdir()
    run.attempt(2).verdict.touch()
    assert has_started(run, 3, 2)
    run.attempt(2).verdict.unlink()
    run.attempt(2).node(0).root.mkdir()
    run.attempt(2).node(0).agent.touch()
    assert has_started(run, 3, 2)


def resume(run: RunPaths, first_attempt: int) -> None:
    record = read_record(run)
    submissions = (*record.submissions, Submission("resume", 1e9, 1, first_attempt))
    write_json(run.record, replace(record, submissions=submissions))


@pytest.mark.parametrize(
    ("final", "is_sent"), [(None, True), (State.STOPPED, False), (State.CANCELLED, False), (State.LOST, True)]
)
def test_of_a_run_that_was_ended_in_the_queue_no_notice_is_sent(
    final: State | None, is_sent: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without Slurm's commands
    run = make_run(tmp_path, NotifyTarget(("no_start",), 0, command=("x",)))
    write_json(run.record, replace(read_record(run), backend="slurm"))
    append_ref(run, SlurmRef(1, 1e9, "7", final))
    sent: list[Notice] = []
    watch(run, 1, lambda _, notice: sent.append(notice))
    assert bool(sent) is is_sent
