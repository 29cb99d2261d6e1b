"""`submit --rehearse-node` while Slurm has no node for it: what an interrupted and a killed command leave."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.runs.store import run_ids
from tests.backends import harness
from tests.backends.harness import wait_for
from tests.backends.slurm.profile import write_profile
from tests.testbed.slurm import SlurmCluster


@pytest.fixture
def queued(slurm: SlurmCluster, home: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A rehearsal that waits in the queue."""
    slurm.run("scontrol", "update", "NodeName=ALL", "State=DRAIN", "Reason=test")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "mine.yaml").write_text("name: mine\nnodes: 2\nentrypoint: {script: train.py}\n")
    words = [str(harness.COMMAND), "submit", "mine.yaml", "-p", write_profile(tmp_path), "--rehearse-node"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as command:
        assert command.stderr is not None
        wait_for(lambda: slurm.run("squeue", "--noheader") != "" and len(run_ids()) == 1, 60, "a queued rehearsal")
        assert any("rehearsal waits for a node" in line for line in command.stderr)
        yield command


def test_an_interrupt_leaves_no_job_and_no_run(slurm: SlurmCluster, queued: subprocess.Popen[str]) -> None:
    queued.send_signal(signal.SIGINT)
    _, text = queued.communicate(timeout=60)
    assert queued.returncode == 130 and text.splitlines()[-1] == "rehearsal: nothing of it is left", text
    assert slurm.run("squeue", "--noheader") == "" and run_ids() == []


def test_a_killed_command_leaves_none_either(slurm: SlurmCluster, queued: subprocess.Popen[str]) -> None:
    queued.kill()
    queued.communicate(timeout=60)
    wait_for(lambda: slurm.run("squeue", "--noheader") == "" and run_ids() == [], 60, "the job and the run to go")
