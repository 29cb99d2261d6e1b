"""`fsdpctl bench` under Slurm: one job, which is cancelled by an interrupt."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl, wait_for
from tests.backends.local.test_bench import started
from tests.backends.slurm.profile import write_profile
from tests.services import require
from tests.testbed.slurm import SlurmCluster

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    require("torch")


def test_nodes_of_an_allocation_are_measured(slurm: SlurmCluster, tmp_path: Path) -> None:
    words = ("bench", "nccl", "-p", write_profile(tmp_path), "--nodes", "3", "--sizes", "1M", "--json")
    found = json.loads(fsdpctl(*words, cwd=tmp_path, expect=None, timeout=240).stdout)
    assert (found["state"], found["members"]) == ("SUCCEEDED", ["node1", "node2", "node3"])
    assert {tuple(pair["pair"]) for pair in found["report"]["pairs"]} == {(0, 1), (0, 2), (1, 2)}
    assert not slurm.run("squeue", "--noheader", "--states=RUNNING,PENDING")


def test_an_interrupt_cancels_the_job(slurm: SlurmCluster, tmp_path: Path) -> None:
    with started(tmp_path, "nccl", "--nodes", "2", profile=write_profile(tmp_path)) as (process, run):
        wait_for(lambda: run.find(None, "fsdpctl.benchmarks.network"), 90, run.describe)
        process.send_signal(signal.SIGINT)
        assert process.wait(90) == 130
    assert not slurm.run("squeue", "--noheader", "--states=RUNNING,PENDING")
    run.assert_nothing_left(30)
