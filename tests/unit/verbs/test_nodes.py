"""Evidence against nodes: what still counts, and what is forgiven."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fsdpctl.contract.events import EventKind
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.errors import UsageError
from fsdpctl.runs.events import supervisor_events
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create
from fsdpctl.runs.suspects import REMEMBERED_S, Suspect, note_suspects, read_suspects
from fsdpctl.verbs.nodes import describe, find_suspects, forgive, read_evidence


def attempt_of(run_id: str, home: Path) -> AttemptPaths:
    run = create(home / "runs", RunRecord.new(run_id, "job", "p", "ssh", time.time(), 1), lambda run: None)
    attempt = RunPaths(run.root).attempt(1)
    attempt.root.mkdir(parents=True)
    return attempt


def suspect(host: str, reason: str, age_s: float = 0.0, attempt: int = 1) -> Suspect:
    return Suspect("ssh", f"10.0.0.{host[-1]}:22", host, reason, attempt, time.time() - age_s)


def test_evidence_counts_for_a_day_and_is_an_event(home: Path) -> None:
    first, second = attempt_of("run-1", home), attempt_of("run-2", home)
    note_suspects(first, [suspect("h1", "died", 100), suspect("h2", "no disk", REMEMBERED_S + 600)])
    note_suspects(first, [suspect("h1", "said twice", 50)])
    note_suspects(second, [suspect("h1", "died again", 10)])
    assert [(one.run_id, one.suspect.reason) for one in read_evidence(time.time())] == [
        ("run-2", "died again"),
        ("run-1", "died"),
    ]
    events = [event for event in supervisor_events(first) if event.kind is EventKind.SUSPECT]
    assert [event.host for event in events] == ["h1", "h2"]
    found = find_suspects("ssh")
    assert list(found) == ["10.0.0.1:22"] and find_suspects("slurm") == {}
    (line,) = describe(list(found.values()), is_used=False)
    assert line == "h1 is left out: suspect (run-2: died again); fsdpctl nodes forgive h1"


@pytest.mark.parametrize("name", ["h1", "10.0.0.1", "10.0.0.1:22"])
def test_what_is_forgiven_no_longer_counts_and_new_evidence_does(name: str, home: Path) -> None:
    attempt = attempt_of("run-1", home)
    note_suspects(attempt, [suspect("h1", "died"), suspect("h2", "died")])
    assert [one.suspect.node for one in forgive(name)] == ["h1"]
    assert list(find_suspects("ssh")) == ["10.0.0.2:22"]
    with pytest.raises(UsageError, match="no evidence against a node h1; suspects: h2"):
        forgive("h1")
    note_suspects(attempt, [suspect("h1", "died again", age_s=-60, attempt=2)])
    assert set(find_suspects("ssh")) == {"10.0.0.1:22", "10.0.0.2:22"}


def test_a_damaged_record_is_no_evidence(home: Path) -> None:
    attempt = attempt_of("run-1", home)
    RunPaths(attempt.run_dir).suspects.write_text("{")
    assert read_suspects(RunPaths(attempt.run_dir)) == () and read_evidence(time.time()) == []
