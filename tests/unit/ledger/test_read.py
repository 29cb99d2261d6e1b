"""The times of a run are read from its directory, whatever is in it."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fsdpctl.contract import Cause, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.events import Actor, Event, EventKind, write_event
from fsdpctl.contract.node_report import RankReport
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import AllocatedNode, Allocation
from fsdpctl.contract.records import NodeEnd, ProcessIdentity
from fsdpctl.ledger.account import Ledger
from fsdpctl.ledger.read import read_ledger
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.record import RunRecord, Submission
from fsdpctl.runs.verdict import Verdict
from fsdpctl.supervise.hang import Hang, PlacedRank

OLDER = Path(__file__).parents[2] / "older_runs"
BEGAN = 1_790_000_000.0


def touch(path: Path, seconds: float, text: str | None = None) -> None:
    """Write a file that was changed so many seconds after the submission."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if text is not None:
        path.write_text(text)
    os.utime(path, (BEGAN + seconds, BEGAN + seconds))


def add_attempt(run: RunPaths, number: int, began: float, work: dict[str, float]) -> None:
    node = run.attempt(number).node(0)
    node.root.mkdir(parents=True)
    write_json(node.agent, ProcessIdentity("h", 7, 7, "b", BEGAN + began))
    lines = [json.dumps({"time": BEGAN + seconds, "work": name}) for name, seconds in work.items()]
    node.work_log.write_text("".join(f"{line}\n" for line in lines))


def end_attempt(run: RunPaths, number: int, verdict: Verdict, seconds: float) -> None:
    attempt = run.attempt(number)
    write_json(attempt.verdict, verdict)
    write_event(attempt.events, Event(EventKind.ENDED, BEGAN + seconds, Actor.SUPERVISOR, attempt=number))


def add_steps(run: RunPaths, attempt: int, *ends: float) -> None:
    with run.metrics.open("a") as file:
        for step, end in enumerate(ends):
            file.write(json.dumps({"step": step, "attempt": attempt, "time": BEGAN + end}) + "\n")


def ledger(run: RunPaths, seconds: float | None, backend: str = "local", **values: Any) -> Ledger:
    record = replace(RunRecord.new("r-aaaa", "r", "local", backend, BEGAN, 1), **values)
    found = read_ledger(RunFacts(run, record), BEGAN + seconds if seconds is not None else None)
    assert found is not None and sum(found.seconds.values()) == pytest.approx(found.total_s)
    return found


def spent(found: Ledger) -> dict[str, float]:
    return {str(use): round(seconds, 3) for use, seconds in found.seconds.items()}


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Return a run whose first attempt ended by a fault at 40, after steps up to 39 of which those to 30 were saved."""
    run = RunPaths(tmp_path / "r-aaaa")
    add_attempt(run, 1, 1, {"start": 2, "restore": 5, "step": 6})
    end = NodeEnd(1, "rank 0 ended", time=BEGAN + 40, cause=Cause.SIGNAL)
    write_json(run.attempt(1).node(0).end, end)
    end_attempt(run, 1, Verdict(State.FAILED, "f", restart=True, step_time=BEGAN + 39, cause=Cause.SIGNAL), 42)
    add_steps(run, 1, 10, 20, 30)
    add_attempt(run, 2, 43, {"start": 44, "restore": 46, "step": 47})
    add_steps(run, 2, 50, 60)
    return run


def test_a_run_that_is_alive_after_a_fault(run: RunPaths) -> None:
    expected = {"start": 8.0, "restore": 2.0, "step": 24.0 + 23.0, "redone": 10.0, "restart": 3.0}
    assert spent(ledger(run, 70)) == expected
    assert ledger(run, 70).effective == pytest.approx(47 / 70)


def test_a_fault_that_another_node_found_counts_from_its_control_file(run: RunPaths) -> None:
    touch(run.attempt(1).abort, 39.5, "fault node 1: rank 1 ended")
    assert spent(ledger(run, 70))["redone"] == 9.5


def test_a_hang_counts_from_the_last_progress_of_a_rank(run: RunPaths) -> None:
    end_attempt(run, 1, Verdict(State.FAILED, "f", restart=True, step_time=BEGAN + 31, cause=Cause.HANG), 42)
    touch(run.attempt(1).abort, 40, "hang node 0: rank 0 hangs")
    touch(run.attempt(1).node(0).rank_progress(0), 33, "")
    touch(run.attempt(1).node(1).rank_progress(1), 32, "")
    touch(run.attempt(1).node(1).rank_progress(2), 41, "")  # by the end of the attempt
    assert (spent(ledger(run, 70))["redone"], spent(ledger(run, 70))["hang"]) == (3.0, 7.0)
    for path in run.root.rglob("progress-*"):
        path.unlink()
    write_json(run.attempt(1).hang, Hang("hangs", PlacedRank(0, "h", RankReport(0, sign_s=5.0))))
    touch(run.attempt(1).hang, 40)
    assert spent(ledger(run, 70))["hang"] == 5.0, "as the agent of a script has measured it"


def test_a_lost_host_counts_from_its_last_heartbeat(run: RunPaths) -> None:
    touch(run.attempt(1).abort, 40, "lost node 1: no sign of life")
    touch(run.attempt(1).node(0).heartbeat, 41, "")
    touch(run.attempt(1).node(1).heartbeat, 35, "")
    assert spent(ledger(run, 70))["hang"] == 5.0


def test_a_cancelled_run_ends_with_the_request(run: RunPaths) -> None:
    touch(run.attempt(2).abort, 65, "cancel fsdpctl cancel")
    end_attempt(run, 2, Verdict(State.CANCELLED, "cancelled", cause=Cause.CANCEL), 70)
    assert (spent(ledger(run, None))["end"], ledger(run, None).total_s) == (5.0, 70.0)


def test_a_run_whose_processes_are_gone_ends_with_its_last_heartbeat(run: RunPaths) -> None:
    touch(run.attempt(2).node(0).heartbeat, 66, "")
    assert ledger(run, None).total_s == 66.0


def test_a_resume_by_the_user_follows_idle_time(run: RunPaths) -> None:
    end_attempt(run, 1, Verdict(State.FAILED, "f", step_time=BEGAN + 39, cause=Cause.SIGNAL), 42)
    submissions = (Submission("submit", BEGAN, 1, 1), Submission("resume", BEGAN + 42.5, 1, 2))
    found = spent(ledger(run, 70, submissions=submissions))
    assert (found["idle"], found["end"], found["start"]) == (0.5, 2.0, 8.5) and "restart" not in found


NIGHT = 36_000.0


def resume_after_a_night(run: RunPaths) -> tuple[Submission, ...]:
    """Resume a run whose second attempt showed its last sign of life at 66, with steps up to 60 kept."""
    touch(run.attempt(2).node(0).heartbeat, 66, "")
    add_attempt(run, 3, NIGHT + 1, {"start": NIGHT + 2, "restore": NIGHT + 4, "step": NIGHT + 5})
    add_steps(run, 3, NIGHT + 10, NIGHT + 20)
    return Submission("submit", BEGAN, 1, 1), Submission("resume", BEGAN + NIGHT, 1, 3)


def test_the_time_after_a_lost_run_until_its_resume_is_idle(run: RunPaths) -> None:
    submissions = resume_after_a_night(run)
    found = ledger(run, NIGHT + 20, submissions=submissions)
    assert spent(found)["idle"] == NIGHT - 66
    assert (spent(found)["step"], spent(found)["redone"]) == (24.0 + 13.0 + 15.0, 10.0 + 6.0)
    run.attempt(2).node(0).heartbeat.unlink()
    assert spent(ledger(run, NIGHT + 20, submissions=submissions))["idle"] == NIGHT - 60, "after its last kept step"
    shutil.rmtree(run.attempt(2).node(0).root)
    run.metrics.unlink()
    touch(run.attempt(2).root, 50)
    assert spent(ledger(run, NIGHT + 20, submissions=submissions))["idle"] == NIGHT - 50


def test_a_verdict_that_the_next_job_wrote_is_no_hang(run: RunPaths) -> None:
    submissions = resume_after_a_night(run)
    for number in (1, 2, 3):
        write_json(run.attempt(number).allocation, Allocation("7" if number < 3 else "8", 0, ()))
        touch(run.attempt(number).allocation, 0.5 if number < 3 else NIGHT + 0.5)
    touch(run.attempt(2).node(0).rank_progress(0), 65, "")
    lost = Verdict(State.LOST, "node 0 left no exit record", step_time=BEGAN + 65, cause=Cause.LOST)
    end_attempt(run, 2, lost, NIGHT + 0.75)
    found = spent(ledger(run, NIGHT + 20, "slurm", submissions=submissions))
    assert (found["hang"], found["idle"], found["queue"]) == (1.0, NIGHT - 66, 0.5 + 0.5)


def test_an_attempt_lived_until_its_exit_record_and_not_only_until_its_last_heartbeat(run: RunPaths) -> None:
    """It went back to the step that ended at 30; heartbeats come once a second or, from other hosts, less often."""
    touch(run.attempt(1).node(0).heartbeat, 25, "")
    write_json(run.attempt(1).node(0).end, NodeEnd(0, "finished", time=BEGAN + 40))
    end_attempt(run, 1, Verdict(State.SUCCEEDED, "f", step_time=BEGAN + 39, cause=Cause.FINISHED), 41)
    submissions = (Submission("submit", BEGAN, 1, 1), Submission("resume", BEGAN + 42.5, 1, 2))
    found = spent(ledger(run, 60, submissions=submissions))
    assert (found["redone"], found["idle"]) == (9.0, 2.5)


def test_a_restart_that_never_came_before_a_resume_is_idle(run: RunPaths) -> None:
    submissions = resume_after_a_night(run)
    verdict = Verdict(State.FAILED, "f", restart=True, step_time=BEGAN + 65, cause=Cause.SIGNAL)
    end_attempt(run, 2, verdict, 67)
    assert spent(ledger(run, NIGHT + 20, submissions=submissions))["idle"] == NIGHT - 66


def test_under_slurm_the_queue_ends_with_the_allocation(run: RunPaths) -> None:
    for number, restarts, given in ((1, 0, 0.5), (2, 1, 42.75)):
        path = run.attempt(number).allocation
        write_json(path, Allocation("7", restarts, (AllocatedNode("n1", "10.0.0.1"),)))
        touch(path, given)
    touch(run.attempt(1).node(0).heartbeat, 41, "")
    found = spent(ledger(run, 70, "slurm"))
    assert (found["queue"], found["restart"], found["start"]) == (0.5 + 1.75, 1.0, 7.75)
    write_json(run.attempt(2).allocation, Allocation("7", 0, (AllocatedNode("n1", "n1"),)))
    assert (spent(ledger(run, 70, "slurm"))["queue"], spent(ledger(run, 70, "slurm"))["restart"]) == (0.5, 3.0)


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"[]", b"{}", b'{"time": 1e999}', b"null", b'"x"', b"9" * 5000])
def test_damaged_files_hide_what_they_had_and_no_more(run: RunPaths, content: bytes) -> None:
    touch(run.attempt(1).abort, 40, "hang node 0: rank 0 hangs")
    write_json(run.attempt(1).hang, Hang("hangs", None))
    for path in [path for path in run.root.rglob("*") if path.is_file()]:
        whole = path.read_bytes()
        path.write_bytes(content)
        found = ledger(run, 70)
        assert found.total_s == 70.0
        path.write_bytes(whole)
    for path in [path for path in run.root.rglob("*") if path.is_file()]:
        path.write_bytes(content)
    assert ledger(run, 70).total_s == 70.0


@pytest.mark.parametrize("older", ["schema_1", "schema_2"])
def test_a_run_of_an_older_version_has_what_it_recorded(older: str, tmp_path: Path) -> None:
    shutil.copytree(OLDER / older / "run", tmp_path / "run")
    found = read_ledger(RunFacts(RunPaths(tmp_path / "run")), None)
    assert found is not None and found.effective is not None
    assert set(spent(found)) == {"start", "running"} and 0 < found.effective < 1
