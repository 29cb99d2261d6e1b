"""Attempts in a Slurm allocation whose disk is full."""

from __future__ import annotations

import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import AllocatedNode, Allocation
from fsdpctl.supervise.attempts import DISK_TRIES, begin_attempt, patiently
from tests.testbed.disks import Mount

ALLOCATION = Allocation("7", 1, (AllocatedNode("node1", "10.0.0.1"),))


def test_an_attempt_waits_for_a_full_disk_for_a_while(small_disk: Mount, monkeypatch: pytest.MonkeyPatch) -> None:
    run, pauses = RunPaths(small_disk.path), []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            small_disk.empty()

    monkeypatch.setattr(time, "sleep", sleep)
    small_disk.fill()
    attempt = patiently(partial(begin_attempt, run, ALLOCATION))
    assert attempt is not None and attempt == run.attempt(1)
    assert read_json(Allocation, attempt.allocation) == ALLOCATION
    assert len(pauses) == 3

    small_disk.fill()
    assert patiently(partial(begin_attempt, run, ALLOCATION)) is None
    assert len(pauses) == 3 + DISK_TRIES
    assert run.attempts() == [attempt]


def test_on_a_full_disk_a_verdict_is_said_where_it_can_be_and_the_exit_code_stays(
    small_disk: Mount, tmp_path: Path
) -> None:
    script = """
import sys
from pathlib import Path
from fsdpctl.supervise.attempts import record
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths
from fsdpctl.supervise.decide import Verdict
record(RunPaths(Path(sys.argv[1])).attempt(1), Verdict(State.FAILED, "rank 2 broke"))
sys.exit(7)
"""
    attempt = RunPaths(small_disk.path).attempt(1)
    attempt.root.mkdir(parents=True)
    small_disk.fill()
    for log in (tmp_path / "batch.log", small_disk.path / "batch.log"):
        with open(log, "w", encoding="utf-8") as file:
            assert subprocess.run([sys.executable, "-c", script, str(small_disk.path)], stdout=file).returncode == 7
    said = (tmp_path / "batch.log").read_text()
    assert said.startswith("attempt 1 is FAILED: rank 2 broke; not written down: [Errno 28] No space left on device")
    assert not attempt.verdict.exists()
