"""`fsdpctl doctor` over SSH: real hosts, each with its own network, /tmp and process table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.backends.fanout import FILES_PER_HOST, OTHER_FILES
from tests.backends import harness
from tests.backends.local.test_doctor import accused
from tests.backends.ssh.cluster import Cluster
from tests.services import require


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    require("torch")


def examine(cluster: Cluster, cwd: Path, expect: int) -> dict[str, dict[str, dict[str, str]]]:
    done = harness.fsdpctl("doctor", str(cluster.profile), "--json", cwd=cwd, expect=expect)
    nodes = json.loads(done.stdout)["nodes"]
    return {node["node"]: {finding["check"]: finding for finding in node["findings"]} for node in nodes}


def test_healthy_hosts_and_spares_pass_and_nothing_is_left(cluster: Cluster, tmp_path: Path) -> None:
    root = tmp_path / "runs"
    root.mkdir()
    cluster.write_profile(f"runs_root: {root}\n", spares=1)
    found = examine(cluster, tmp_path, expect=0)
    assert list(found) == ["node1", "node2", "node3", "node4"]
    assert accused(found) == {}
    assert found["node1"]["head"]["reason"].startswith("10.77.0.1: ")
    for node in ("node2", "node3", "node4"):
        assert found[node]["connect"]["reason"] == "16 of 24000-24999 tried, all reached"
        assert found[node]["shared"]["result"] == found[node]["head"]["result"] == "ok"
    assert not list(root.iterdir())
    cluster.assert_clean()


def test_a_small_limit_of_open_files_makes_it_slower_only(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So few that no connection is kept, and that the head is in groups of two with one other host after the other."""
    command = tmp_path / "with-few-files"
    command.write_text(f'#!/bin/sh\nulimit -n {OTHER_FILES + 2 * FILES_PER_HOST}\nexec "{harness.COMMAND}" "$@"\n')
    command.chmod(0o755)
    monkeypatch.setattr(harness, "COMMAND", command)
    cluster.write_profile(f"runs_root: {tmp_path}\n")
    found = examine(cluster, tmp_path, expect=0)
    assert accused(found) == {}
    for node in ("node2", "node3", "node4"):
        assert found[node]["connect"]["reason"] == "16 of 24000-24999 tried, all reached"
        assert found[node]["shared"]["result"] == "ok"


def test_a_run_root_that_is_not_shared_is_reported(cluster: Cluster, tmp_path: Path) -> None:
    cluster.write_profile("runs_root: /tmp/runs\n", hosts=2)  # each host's own /tmp
    found = examine(cluster, tmp_path, expect=1)
    assert accused(found) == {"node2": {"shared"}}
    assert "runs_root" in found["node2"]["shared"]["fix"]


def test_a_dead_host_and_one_that_cannot_reach_the_head_are_reported(cluster: Cluster, tmp_path: Path) -> None:
    dead, cut_off = cluster.nodes[1:3]
    cluster.write_profile(f"runs_root: {tmp_path}\n")
    dead.die()
    cut_off.run("ip", "route", "add", "unreachable", "10.77.0.1")
    try:
        found = examine(cluster, tmp_path, expect=1)
    finally:
        cut_off.run("ip", "route", "delete", "unreachable", "10.77.0.1")
    assert accused(found) == {"node2": {"reach"}, "node3": {"connect"}}
    assert "10.77.0.2" in found["node2"]["reach"]["reason"]
    assert "16 of 16 tried ports of 10.77.0.1 cannot be reached" in found["node3"]["connect"]["reason"]
    assert found["node4"]["connect"]["result"] == "ok"
