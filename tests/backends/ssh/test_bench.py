"""`fsdpctl bench` over SSH: a slow cable, and a slow link between two hosts, in networks of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.backends import harness
from tests.backends.ssh.cluster import Cluster
from tests.services import require


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    require("torch")


def bench_network(cluster: Cluster, cwd: Path, expect: int) -> dict[str, Any]:
    words = ("bench", "nccl", "-p", str(cluster.profile), "--sizes", "1M", "--json")
    return dict(json.loads(harness.fsdpctl(*words, cwd=cwd, expect=expect).stdout))


def test_a_host_with_a_slow_cable_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """Also among spares. All cables are slow enough for a busy machine to fill them."""
    cluster.write_profile(f"runs_root: {tmp_path}\n", spares=1)
    cluster.lan.limit("200mbit", *cluster.nodes)
    cluster.lan.limit("50mbit", cluster.nodes[3])
    found = bench_network(cluster, tmp_path, expect=1)
    assert found["members"] == ["node1", "node2", "node3", "node4"]
    assert found["report"]["verdict"] == {"fault": "members", "members": [3], "links": [], "groups": []}
    speeds = {tuple(pair["pair"]): pair["bytes_per_s"] for pair in found["report"]["pairs"]}
    assert all(speed < 8e6 for pair, speed in speeds.items() if 3 in pair), "50 Mbit/s, and a bucket of 64 KiB"
    cluster.assert_clean()


def test_a_slow_link_between_two_hosts_is_named(cluster: Cluster, tmp_path: Path) -> None:
    cluster.write_profile(f"runs_root: {tmp_path}\nnetwork: {{gbps: 0.2}}\n")
    cluster.lan.limit("200mbit", *cluster.nodes)
    cluster.lan.add_slow_link("50mbit", cluster.nodes[0], cluster.nodes[2])
    words = ("bench", "nccl", "-p", str(cluster.profile), "--sizes", "1M")
    printed = harness.fsdpctl(*words, cwd=tmp_path, expect=1).stdout
    assert "The link node1 - node3 is slow." in printed, printed
    assert "should give 0.025 GB/s (by the profile)" in printed
    cluster.assert_clean()


def test_doctor_measures_hosts_with_disks_of_their_own(cluster: Cluster, tmp_path: Path) -> None:
    cluster.private = True
    cluster.write_profile(hosts=2)
    words = ("doctor", str(cluster.profile), "--deep", "--json")
    found = json.loads(harness.fsdpctl(*words, cwd=tmp_path, expect=None, timeout=280).stdout)
    assert found["ok"] and found["network"]["state"] == found["disk"]["state"] == "SUCCEEDED"
    assert len(found["network"]["report"]["pairs"]) == 1
    nodes = found["disk"]["report"]["nodes"]
    assert [(node["read_from"], node["filesystem"]["mount"]) for node in nodes] == [(0, "/var/tmp"), (1, "/var/tmp")]
    for host in cluster.nodes[:2]:
        left = cluster.host_disk(host) / found["disk"]["run_id"]
        assert left.exists() and not (left / "benchmark-files").exists()
    cluster.assert_clean()
