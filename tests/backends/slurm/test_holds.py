"""Holds of Slurm's nodes: a job that waits, and runs as its steps."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import HoldPaths
from fsdpctl.contract.records import ForkServerRecord, KeeperRecord
from fsdpctl.node.os import processes
from tests.backends.harness import fsdpctl, wait_for
from tests.backends.holds import check_hold, read_seen, rows, run_in, write_job
from tests.backends.slurm.profile import write_profile
from tests.services import require
from tests.testbed.slurm import SlurmCluster


@pytest.mark.timeout(300)
def test_a_hold_keeps_an_allocation_between_runs_without_a_queue(
    slurm: SlurmCluster, tmp_path: Path, home: Path
) -> None:
    require("torch")
    profile = write_profile(tmp_path)

    def is_kept(hold: HoldPaths) -> None:
        fork_server = read_json(ForkServerRecord, hold.fork_server(0))
        keeper = read_json(KeeperRecord, hold.keeper(0))
        assert keeper.process.pid in processes.ancestors(fork_server.process.pid), "not of the step of a run"

    check_hold(tmp_path, profile, held=2, nodes=1, look=is_kept)
    assert slurm.run("squeue", "--noheader") == ""


@pytest.mark.timeout(300)
def test_a_hold_waits_for_nodes_and_ends_with_its_job(slurm: SlurmCluster, tmp_path: Path, home: Path) -> None:
    profile = write_profile(tmp_path)
    words = ["--nodes", "3", "--json"]
    fsdpctl("hold", "-p", profile, *words, "--name", "a", cwd=tmp_path)
    (first,) = rows(tmp_path)
    assert len(first["nodes"]) == 3 and first["job_id"]

    write_job(tmp_path, "WAIT", 1)
    too_many = fsdpctl("submit", "./job.yaml", "--in", "a", "--nodes", "4", cwd=tmp_path, expect=4)
    assert "4 nodes wanted, but hold a has 3" in too_many.stderr
    run = run_in("a", tmp_path, "WAIT", 1)
    wait_for(lambda: all(read_seen(run, 1)), 60, run.describe)
    slurm.run("scancel", first["job_id"])
    assert run.wait_ended()["state"] in ("STOPPED", "LOST", "FAILED", "CANCELLED")
    wait_for(lambda: rows(tmp_path) == [], 60, "the hold to end with its job")
    run.assert_nothing_left()
    missing = fsdpctl("submit", "./job.yaml", "--in", "a", cwd=tmp_path, expect=2)
    assert "no hold a" in missing.stderr


def test_holds_of_one_name_in_two_homes_are_two(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = write_profile(tmp_path)
    jobs = []
    for home in ("a", "b | %j"):
        monkeypatch.setenv(Env.HOME, str(tmp_path / home))
        taken = fsdpctl("hold", "-p", profile, "--name", "dev", "--json", cwd=tmp_path).stdout
        jobs.append(json.loads(taken)["job_id"])
    monkeypatch.setenv(Env.HOME, str(tmp_path / "a"))
    fsdpctl("release", "dev", cwd=tmp_path)
    assert slurm.run("squeue", "--noheader", "--format=%i") == jobs[1]
    monkeypatch.setenv(Env.HOME, str(tmp_path / "b | %j"))
    fsdpctl("release", "dev", cwd=tmp_path)
    assert rows(tmp_path) == [] and slurm.run("squeue", "--noheader") == ""


def test_an_idle_hold_ends_its_job(slurm: SlurmCluster, tmp_path: Path, home: Path) -> None:
    profile = write_profile(tmp_path)
    taken = json.loads(fsdpctl("hold", "-p", profile, "--idle", "1s", "--json", cwd=tmp_path).stdout)
    wait_for(lambda: slurm.job(taken["job_id"])["JobState"] == "COMPLETED", 60, lambda: slurm.job(taken["job_id"]))
    assert rows(tmp_path) == []
