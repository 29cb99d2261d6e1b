"""Records of events: what is written is read again, and so is what older and newer versions have written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract import events as module
from fsdpctl.contract.events import Actor, Event, EventKind, log_line, parse_events, read_events, write_event

ENDED = Event(
    EventKind.ENDED,
    1_795_000_000.5,
    Actor.SUPERVISOR,
    "FAILED: rank 2",
    3,
    step=7,
    state=State.FAILED,
    cause=Cause.SIGNAL,
    restart=True,
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    write_event(path, ENDED)
    write_event(path, Event(EventKind.NOTICE, 1.0, Actor.RANK, "two\nlines \x1b[31m", rank=0))
    ended, notice = read_events(path, 3)
    assert ended == ENDED
    assert (notice.text, notice.rank, notice.attempt) == ("two; lines \x1b[31m", 0, 3)
    first = json.loads(path.read_text().splitlines()[0])
    assert list(first)[:3] == ["v", "kind", "time"]
    assert "rank" not in first, "only values that apply"


def test_lines_of_an_older_version_are_notices_of_the_supervisor() -> None:
    (event,) = parse_events(["2026-11-18T11:06:40.500Z started on 2 nodes", "2026-11-", ""], 2)
    assert event == Event(EventKind.NOTICE, 1_795_000_000.5, Actor.SUPERVISOR, "started on 2 nodes", 2)


def test_an_event_of_a_newer_version_keeps_its_time_and_text() -> None:
    newer = {"v": 2, "kind": "moved", "time": 5.0, "who": "operator", "text": "to another rack", "rack": 3}
    (event,) = parse_events([json.dumps(newer), json.dumps({**newer, "v": 1}), '{"v": 9}', "{" * 99_999], 1)
    assert event == Event(EventKind.NOTICE, 5.0, Actor.SUPERVISOR, "to another rack", 1)


def test_the_log_shows_an_event_like_a_line_of_a_rank() -> None:
    assert log_line(module.to_line(ENDED)) == "2026-11-18T11:06:40.500Z FAILED: rank 2"
    for text in ("2026-11-27 23:05:43.000 started", "{broken", ""):
        assert log_line(text) == text


def test_a_file_of_events_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LIMIT_BYTES", 500)
    for _ in range(100):
        write_event(tmp_path / "events.jsonl", ENDED)
    assert 300 < (tmp_path / "events.jsonl").stat().st_size <= 500
