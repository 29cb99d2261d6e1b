"""`fsdpctl bench` on this machine, and what is left when it is interrupted or killed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fsdpctl.contract.paths import RunPaths
from tests.backends.harness import COMMAND, Run, kill, wait_for
from tests.services import require

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    require("torch")


@contextmanager
def started(tmp_path: Path, *words: str, profile: str = "local") -> Iterator[tuple[subprocess.Popen[str], Run]]:
    """Start a benchmark of its own home; yield the command and its run, which has been given its id."""
    env = {**os.environ, "FSDPCTL_HOME": str(tmp_path)}
    command = [str(COMMAND), "bench", *words, "-p", profile]
    output = subprocess.PIPE
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=output, stderr=output, text=True) as process:
        assert process.stderr is not None
        run_id = process.stderr.readline().split()[0]
        yield process, Run(run_id, RunPaths(tmp_path / "runs" / run_id), tmp_path)


def test_an_interrupt_ends_all_of_it(tmp_path: Path) -> None:
    with started(tmp_path, "nccl", "--nodes", "3") as (process, run):
        wait_for(lambda: len(run.find(None, "fsdpctl.benchmarks.network")) >= 6, 60, run.describe)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    run.assert_nothing_left()


def test_files_are_removed_after_ranks_were_killed(tmp_path: Path) -> None:
    """With the disk shared by two nodes, files have names: other nodes read them."""
    with started(tmp_path, "io", "--nodes", "2", "--size", "4G") as (process, run):
        wait_for(lambda: len(list(run.paths.benchmark_files.glob("*"))) == 4, 60, run.describe)
        kill(run.find(None, "fsdpctl.node.agent.rank"))
        _, stderr = process.communicate(timeout=60)
        assert process.returncode == 1
        assert "FAILED" in stderr and f"fsdpctl explain {run.run_id}" in stderr
    assert not run.paths.benchmark_files.exists()
    run.assert_nothing_left()


def test_ranks_remove_their_files_when_the_command_was_killed(tmp_path: Path) -> None:
    with started(tmp_path, "io", "--nodes", "2", "--size", "64M") as (process, run):
        wait_for(lambda: run.find(None, "fsdpctl.benchmarks.disk"), 60, run.describe)
        process.kill()
        process.wait()
    wait_for(lambda: (run.paths.attempt(1).verdict).exists(), 90, run.describe)
    assert run.paths.attempt(1).node(0).benchmark.exists()
    assert not run.paths.benchmark_files.exists()
