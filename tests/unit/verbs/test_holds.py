"""A hold of this machine between runs, with files only."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract import State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import BusyError, UsageError
from fsdpctl.node.os import processes
from fsdpctl.runs.verdict import Verdict
from fsdpctl.specs.load import parse_profile
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs import holds
from fsdpctl.verbs.holds import HoldStatus, entering, list_holds, release, take_hold


@pytest.fixture
def profile(tmp_path: Path, home: Path) -> ClusterProfile:
    return parse_profile(f"name: here\nbackend: local\nruns_root: {tmp_path}/runs\n", "p.yaml")


@pytest.fixture
def hold(profile: ClusterProfile) -> HoldStatus:
    return take_hold(profile, 1, 60, 60)


def test_the_name_of_a_hold_that_has_ended_by_itself_is_free_again(profile: ClusterProfile) -> None:
    first = take_hold(profile, 1, 60, 60, "dev")
    with pytest.raises(UsageError, match="there is a hold dev already"):
        take_hold(profile, 1, 60, 60, "dev")
    assert first.held is not None
    write_json(first.paths.held, replace(first.held, since=first.held.since - 61))  # its time is over
    again = take_hold(profile, 1, 60, 60, "dev")
    assert [status.record for status in list_holds()] == [again.record] != [first.record]


def test_what_is_swept_after_a_run_keeps_others_out_and_the_hold_can_be_released(
    hold: HoldStatus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for a minute after a host of the run has died."""
    monkeypatch.setattr(holds, "ENDING_S", 0.0)
    run, name = RunPaths(tmp_path / "runs" / "run-1"), hold.record.name
    run.attempt(1).root.mkdir(parents=True)
    with entering(hold, run):
        pass
    write_json(run.supervisor, processes.identify(os.getpid()))
    with pytest.raises(BusyError, match=f"run run-1 is in hold {name}"):
        release(name)
    write_json(run.attempt(1).verdict, Verdict(State.LOST, "its agent vanished"))
    with pytest.raises(BusyError, match="run run-1 has ended, and the nodes of hold"), entering(hold, run):
        pass
    release(name)
    assert list_holds() == [] and not hold.paths.root.exists()
