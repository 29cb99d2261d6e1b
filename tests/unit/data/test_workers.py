"""Worker processes: their results and failures."""

from __future__ import annotations

import os
import signal
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

from fsdpctl.contract.byte_progress import Report
from fsdpctl.data.workers import run_all
from fsdpctl.errors import FsdpctlError, UsageError


def square(item: int, report: Report) -> int:
    report(item)
    return item * item


def misbehave(item: str, report: Report) -> None:
    match item:
        case "usage":
            raise UsageError("a.jsonl:3: not valid JSON", hint="fix it")
        case "bug":
            raise ZeroDivisionError("oops")
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)


def rendezvous(item: Path, report: Report) -> None:
    """Fail once the other worker is up; that one waits for long."""
    if item.name == "waits":
        item.with_name("temporary").write_text(str(os.getpid()))
        item.with_name("temporary").rename(item)
        time.sleep(600)
    while not item.with_name("waits").exists():
        time.sleep(0.01)
    raise UsageError("enough")


def blocks_interrupt(pid_of: str, report: Report) -> bool:
    pid = os.getpid() if pid_of == "worker" else os.getppid()
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigBlk"], 16) & 1 << signal.SIGINT - 1)


@pytest.mark.slow  # what it stops has the processor time of other tests' workers
def test_ctrl_c_reaches_neither_a_worker_nor_the_fork_server_even_while_it_is_importing() -> None:
    """A mask is inherited, so that of the fork server now is what it started with."""
    forkserver._forkserver._stop()  # type: ignore[attr-defined]  # another test's, in this process
    assert list(run_all(blocks_interrupt, ["worker", "fork server"], 1, print)) == [True, True]
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


@pytest.mark.slow
def test_all_results_and_all_reports_arrive() -> None:
    reports: list[int] = []
    assert sorted(run_all(square, range(20), 3, reports.append)) == [number**2 for number in range(20)]
    assert sorted(reports) == list(range(20))
    assert list(run_all(square, [], 3, reports.append)) == []


def test_an_expected_error_is_raised_unchanged() -> None:
    with pytest.raises(UsageError) as caught:
        list(run_all(misbehave, ["usage"], 1, print))
    assert (caught.value.message, caught.value.hint) == ("a.jsonl:3: not valid JSON", "fix it")


def test_a_bug_is_raised_with_its_traceback() -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(run_all(misbehave, ["bug"], 1, print))
    assert "in misbehave" in caught.value.__notes__[0]


def test_a_killed_worker_is_a_failure_not_a_hang() -> None:
    with pytest.raises(FsdpctlError, match=r"exit code -9 \(killed: out of memory\?\)"):
        list(run_all(misbehave, ["fine", "kill", "fine"], 2, print))


def test_one_failure_ends_the_others(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="enough"):
        list(run_all(rendezvous, [tmp_path / "fails", tmp_path / "waits"], 2, print))
    pid = int((tmp_path / "waits").read_text())
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
