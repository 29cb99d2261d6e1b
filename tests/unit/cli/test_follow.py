"""What a command shows while it watches a run, and after its end."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.base import View
from fsdpctl.cli.follow import next_commands
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.record import RunRecord
from fsdpctl.verbs.status import RunStatus, status_by


@pytest.fixture
def status(tmp_path: Path) -> RunStatus:
    record = RunRecord.new("r-aaaa", "r", "local", "local", 1.0, 1)
    return status_by(RunFacts(RunPaths(tmp_path), record), View("none"))


@pytest.mark.parametrize(
    ("state", "first", "resumes"),
    [
        (State.SUCCEEDED, "fsdpctl logs r-aaaa", False),
        (State.FAILED, "fsdpctl explain r-aaaa", True),
        (State.STOPPED, "fsdpctl resume r-aaaa", True),
        (State.CANCELLED, "fsdpctl resume r-aaaa", True),
    ],
)
def test_a_finished_run_is_not_resumed_and_a_failure_is_read_first(
    status: RunStatus, state: State, first: str, resumes: bool
) -> None:
    commands = next_commands(replace(status, state=state))
    assert commands[0] == first
    assert ("fsdpctl resume r-aaaa" in commands) == resumes
