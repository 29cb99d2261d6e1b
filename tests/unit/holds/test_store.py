"""The list of holds, and what one is used for, with files only."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import HoldPaths, RunPaths
from fsdpctl.errors import BusyError, UsageError
from fsdpctl.holds import store
from fsdpctl.holds.record import Hold
from fsdpctl.holds.use import read_use
from fsdpctl.node.os import processes
from fsdpctl.verbs.holds import list_holds

HOLD = Hold("dev", "local", "local", 1, created=0.0, time_s=60, idle_s=60)


@pytest.fixture
def hold(tmp_path: Path, home: Path) -> HoldPaths:
    hold = HoldPaths.below(tmp_path / "runs", "dev")
    store.create(hold, HOLD, lambda hold: None)
    return hold


def test_a_hold_is_listed_until_it_is_removed(hold: HoldPaths) -> None:
    assert store.list_holds() == [hold]
    store.remove(hold)
    assert store.list_holds() == [] and not hold.root.exists()


def test_one_that_was_only_half_made_is_none(hold: HoldPaths) -> None:
    hold.record.unlink()
    assert store.list_holds() == []


def test_no_run_enters_one_that_was_released_since_it_was_read(hold: HoldPaths) -> None:
    store.remove(hold)
    with pytest.raises(UsageError, match="hold dev has ended"), store.entering(hold):
        pass
    hold.root.mkdir(parents=True)  # another one of this name is being made
    with pytest.raises(UsageError, match="hold dev has ended"), store.entering(hold):
        pass


def test_without_a_scheduler_one_whose_command_was_killed_is_forgotten(hold: HoldPaths) -> None:
    assert hold.held.exists() is False and list_holds() == []
    assert not hold.root.exists()


def test_one_command_changes_holds_at_a_time(hold: HoldPaths) -> None:
    with store.changing(), store.entering(hold):
        pid = os.fork()  # locks of fcntl(2) are those of a process
        if pid == 0:
            codes = [_is_busy(store.changing()), _is_busy(store.entering(hold))]
            os._exit(sum(codes))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2


def _is_busy(lock: object) -> int:
    try:
        with lock:  # type: ignore[attr-defined]
            return 0
    except BusyError:
        return 1


def test_a_run_uses_it_while_its_supervisor_lives_and_then_it_is_idle(hold: HoldPaths, tmp_path: Path) -> None:
    assert read_use(hold).run_id is None and read_use(hold).last_end == 0.0
    run = RunPaths(tmp_path / "runs" / "run-1")
    attempt = run.attempt(1)
    attempt.root.mkdir(parents=True)
    hold.newest_run.write_text(f"{run.root}\n")
    assert read_use(hold).run_id is None, "nothing of it runs"

    write_json(run.supervisor, processes.identify(os.getpid()))
    used = read_use(hold)
    assert (used.run_id, used.is_ending) == ("run-1", False)
    attempt.verdict.write_text('{"state": "SUCCEEDED", "reason": "finished"}')
    os.utime(attempt.verdict, (time.time() + 50, time.time() + 50))
    assert read_use(hold).is_ending
    run.supervisor.unlink()
    used = read_use(hold)
    assert (used.run_id, used.is_ending, used.last_end > time.time() + 40) == (None, False, True)


def test_a_run_that_was_deleted_leaves_it_idle_since_its_start(hold: HoldPaths, tmp_path: Path) -> None:
    hold.newest_run.write_text(f"{tmp_path}/gone\n")
    os.utime(hold.newest_run, (5000, 5000))
    assert read_use(hold).last_end == 5000
