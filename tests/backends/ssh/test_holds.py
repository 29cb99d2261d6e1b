"""Holds of hosts, with and without a disk that they share."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.contract.paths import RunPaths
from tests.backends.harness import Run, fsdpctl
from tests.backends.holds import check_hold, write_job
from tests.backends.ssh.cluster import Cluster
from tests.services import require


@pytest.mark.timeout(300)
def test_a_hold_keeps_hosts_between_runs_and_their_fork_servers(cluster: Cluster, tmp_path: Path, home: Path) -> None:
    require("torch")
    check_hold(tmp_path, str(cluster.profile), held=2, nodes=1)
    cluster.assert_clean(limit_s=30)


@pytest.mark.timeout(300)
def test_a_hold_without_a_shared_disk(cluster: Cluster, tmp_path: Path, home: Path) -> None:
    require("torch")
    cluster.private = True
    cluster.write_profile()

    def seen_from_here(run: Run) -> Run:
        return Run(run.run_id, RunPaths(cluster.host_disk(cluster.lan.login) / run.run_id), run.cwd)

    check_hold(tmp_path, str(cluster.profile), held=2, nodes=1, seen_from_here=seen_from_here)
    cluster.assert_clean(limit_s=30)
    assert not (cluster.host_disk(cluster.nodes[0]) / ".holds" / "dev").exists()


def test_held_hosts_are_left_to_the_hold(cluster: Cluster, tmp_path: Path, home: Path) -> None:
    """Other runs get the other hosts, a third one none."""
    profile = str(cluster.profile)
    fsdpctl("hold", "-p", profile, "--nodes", "3", "--name", "most", cwd=tmp_path)
    write_job(tmp_path, "other", 1)
    planned = json.loads(fsdpctl("submit", "./job.yaml", "-p", profile, "--dry-run", "--json", cwd=tmp_path).stdout)
    assert [node["id"] for node in planned["plan"]["nodes"]] == ["node4"]
    refused = fsdpctl("submit", "./job.yaml", "-p", profile, "--nodes", "2", cwd=tmp_path, expect=4)
    assert "2 nodes wanted, but only 1 of the profile are not held" in refused.stderr
    fsdpctl("release", "most", cwd=tmp_path)
