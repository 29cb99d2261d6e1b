"""The history of a run is joined from what each process has recorded."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.events import Actor, EventKind, write_event
from fsdpctl.contract.events import Event as Record
from fsdpctl.contract.formats.manifest import Manifest, write_manifest
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from fsdpctl.runs.events import add_event, record_start, record_verdict
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.timeline import read_timeline
from fsdpctl.runs.verdict import Verdict

BEGAN = time.time() - 1000


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    run = RunPaths(tmp_path / "r-aaaa")
    for number in (1, 2):
        run.attempt(number).node(0).root.mkdir(parents=True)
    return run


def kinds(run: RunPaths) -> list[tuple[int, str, str]]:
    record = RunRecord.new("r-aaaa", "r", "local", "local", BEGAN, 1)
    return [(event.attempt, event.kind, event.who) for event in read_timeline(RunFacts(run, record))]


def save(run: RunPaths, step: int, attempt: int, seconds: float) -> None:
    directory = run.checkpoints / checkpoint_name(step)
    directory.mkdir(parents=True)
    write_manifest(directory, Manifest(1, step, attempt, 1, (1, 1), {}, "f", "2", BEGAN + seconds, {}, 1.0))


def test_each_thing_has_its_actor_and_nothing_comes_twice(run: RunPaths) -> None:
    record_start(run.attempt(1), 1, is_first=True)
    save(run, 10, 1, 5.0)  # by an older version: no event
    save(run, 20, 2, 0.0)
    write_event(run.attempt(2).node(0).events, Record(EventKind.SAVED, time.time(), Actor.RANK, "", 2, rank=0, step=20))
    run.attempt(1).abort.write_text("fault node 0: out of memory")
    record_verdict(run.attempt(1), Verdict(State.FAILED, "node 0", restart=True, cause=Cause.SIGNAL))
    record_start(run.attempt(2), 1, is_first=False)
    run.attempt(2).stop.write_text("preempt the partition is needed")
    run.attempt(2).allocation.write_text("")
    os.utime(run.attempt(1).abort, (BEGAN + 9, BEGAN + 9))
    assert kinds(run)[:3] == [(0, "submitted", "user"), (1, "saved", "rank"), (1, "fault", "node")]
    assert sorted(kinds(run)[3:]) == [
        (1, "ended", "supervisor"),
        (1, "started", "supervisor"),
        (2, "preempted", "slurm"),
        (2, "restarted", "supervisor"),
        (2, "saved", "rank"),
    ]


@pytest.mark.parametrize(
    ("name", "content", "kind", "who"),
    [
        ("stop", "user fsdpctl stop", "stop_requested", "user"),
        ("stop", "", "stop_requested", "user"),
        ("stop", "time the time limit of 60 s is near", "time_limit", "node"),
        ("stop", "preempt node 0 got SIGTERM", "preempted", "node"),
        ("abort", "cancel fsdpctl cancel", "cancel_requested", "user"),
        ("abort", "", "cancel_requested", "user"),
        ("abort", "lost node 1: lost", "lost", "supervisor"),
        ("abort", "hang node 1: rank 2 hangs", "hang", "supervisor"),
    ],
)
def test_a_control_file_is_an_event(run: RunPaths, name: str, content: str, kind: str, who: str) -> None:
    (run.attempt(2).root / name).write_text(content)
    assert kinds(run)[1:] == [(2, kind, who)]


def test_a_users_stop_after_one_of_the_scheduler_is_an_event_of_its_own(run: RunPaths) -> None:
    run.attempt(2).stop.write_text("preempt node 0 got SIGTERM\n\nuser fsdpctl stop\n")
    assert kinds(run)[1:] == [(2, "preempted", "node"), (2, "stop_requested", "user")]


def test_what_the_supervisor_has_recorded_itself_is_not_taken_from_the_control_file(run: RunPaths) -> None:
    add_event(run.attempt(2), "ends the attempt: rank 2 hangs", EventKind.HANG, rank=2)
    run.attempt(2).abort.write_text("hang node 1: rank 2 hangs")
    assert kinds(run)[1:] == [(2, "hang", "supervisor")]


def test_a_verdict_whose_event_did_not_fit_onto_the_disk_is_an_event(run: RunPaths) -> None:
    record_verdict(run.attempt(1), Verdict(State.STOPPED, "stopped", cause=Cause.STOP))
    run.attempt(1).events.unlink()
    assert kinds(run)[1:] == [(1, "ended", "supervisor")]
    run.attempt(1).older_events.write_text("2026-11-18T11:06:40.500Z STOPPED: stopped\n")
    assert (1, "ended", "supervisor") not in kinds(run), "an older version has it as a line of text"


def test_each_submission_is_an_event(run: RunPaths) -> None:
    record = RunRecord.new("r-aaaa", "r", "local", "local", BEGAN, 1)
    resumed = Submission("resume", BEGAN + 1, 2, 2)
    record = RunRecord(**{**vars(record), "submissions": (*record.submissions, resumed)})
    assert [(event.kind, event.text) for event in read_timeline(RunFacts(run, record))] == [
        (EventKind.SUBMITTED, "job r, profile local, 1 node"),
        (EventKind.RESUMED, "job r, profile local, 2 nodes"),
    ]


def test_a_damaged_manifest_hides_nothing_else(run: RunPaths) -> None:
    save(run, 10, 1, 5.0)
    (run.checkpoints / checkpoint_name(20)).mkdir()
    (run.checkpoints / checkpoint_name(20) / "manifest.json").write_text(json.dumps([]))
    assert kinds(run)[1:] == [(1, "saved", "rank")]
