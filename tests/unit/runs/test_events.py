from __future__ import annotations

import time
from pathlib import Path

from fsdpctl.contract import State
from fsdpctl.contract.events import log_line
from fsdpctl.contract.paths import RunPaths
from fsdpctl.logs.stamp import parse_stamp
from fsdpctl.runs.events import add_event, newest_events, record_verdict
from fsdpctl.runs.evidence import read_verdict
from fsdpctl.runs.verdict import Verdict


def make_run(root: Path, attempts: int) -> RunPaths:
    run = RunPaths(root)
    for number in range(1, attempts + 1):
        run.attempt(number).root.mkdir(parents=True)
    return run


def test_the_newest_events_of_all_attempts_are_in_order(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=3)
    before = time.time()
    for number, text in ((1, "one"), (1, "two\nand three"), (2, "four")):
        add_event(run.attempt(number), text)
    events = newest_events(run, 2)
    assert [(event.attempt, event.text) for event in events] == [(1, "two; and three"), (2, "four")]
    assert all(before - 0.001 <= event.time <= time.time() + 0.001 for event in events)
    assert len(newest_events(run, 9)) == 3
    assert run.attempt(1).events.stat().st_mode & 0o777 == 0o600


def test_the_log_reader_finds_the_time_of_an_event(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    add_event(run.attempt(1), "one")
    (event,) = newest_events(run, 1)
    shown = log_line(run.attempt(1).events.read_text())
    assert parse_stamp(shown, near=0) == event.time
    assert shown.endswith("Z one")


def test_events_of_an_older_version_come_first(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    run.attempt(1).older_events.write_text("2026-11-18T11:06:40.500Z started on 2 nodes\n")
    add_event(run.attempt(1), "a new supervisor continues it")
    assert [event.text for event in newest_events(run, 9)] == ["started on 2 nodes", "a new supervisor continues it"]


def test_a_full_disk_raises_nothing_and_a_cut_line_is_skipped(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=2)
    run.attempt(2).events.symlink_to("/dev/full")
    add_event(run.attempt(2), "lost")
    run.attempt(2).events.unlink()  # reading /dev/full never ends
    run.attempt(1).events.write_text("2026-11-")
    assert newest_events(run, 9) == []


def test_a_verdict_is_an_event(tmp_path: Path) -> None:
    run = make_run(tmp_path, attempts=1)
    verdict = Verdict(State.FAILED, "node 1: rank 2 ended with signal 9", restart=True, step=4)
    record_verdict(run.attempt(1), verdict)
    assert read_verdict(run.attempt(1)) == verdict
    (event,) = newest_events(run, 9)
    assert event.text == "FAILED: node 1: rank 2 ended with signal 9; comes back"
