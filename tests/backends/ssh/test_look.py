"""`fsdpctl profiles init --look` over SSH: what real hosts have in common, and where they differ."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.specs.load import load_profile
from tests.backends import harness
from tests.backends.ssh.cluster import Cluster
from tests.services import require


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    require("torch")


def test_hosts_are_seen_and_doctor_accepts_the_profile(cluster: Cluster, tmp_path: Path) -> None:
    """Of four hosts one is down and one has another address range of its interface's name."""
    cluster.nodes[3].die()
    other = cluster.nodes[2]
    other.run("sh", "-c", "ip link set e0 down; ip link set e0 name fast0; ip link set fast0 up")
    try:
        words = ("profiles", "init", "seen", "--hosts", "10.77.0.[1-4]")
        done = harness.fsdpctl(*words, cwd=tmp_path)
        written = tmp_path / "cluster_profiles" / "seen.yaml"
        assert done.stdout.strip() == "cluster_profiles/seen.yaml"
        assert "10.77.0.1: no GPU, " in done.stderr and "with torch" in done.stderr
        assert "warning: 10.77.0.4: " in done.stderr, done.stderr
        profile = load_profile(str(written))
        assert [node.address for node in profile.nodes] == ["10.77.0.1", "10.77.0.2", "10.77.0.3"]
        assert (profile.gpus_per_node, profile.network.interface, profile.backend.kind) == (0, "auto", "ssh")
        assert "# - {id: 10.77.0.4, address: 10.77.0.4}" in written.read_text()
        again = harness.fsdpctl(*words, cwd=tmp_path, expect=2)
        assert "exists" in again.stderr
        checked = json.loads(harness.fsdpctl("doctor", "seen", "--json", cwd=tmp_path).stdout)
        assert checked["ok"] and len(checked["nodes"]) == 3
    finally:
        other.run("sh", "-c", "ip link set fast0 down; ip link set fast0 name e0; ip link set e0 up")
    cluster.assert_clean()


def test_an_unknown_host_key_is_refused_and_stored_on_request(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lan.know(cluster.nodes[0])
    hostfile = tmp_path / "hosts"
    hostfile.write_text("10.77.0.1 slots=8  # the head\n\n10.77.0.2\n")
    refused = harness.fsdpctl("profiles", "init", "one", "--hostfile", str(hostfile), cwd=tmp_path)
    assert "host key" in refused.stderr and "10.77.0.2" in refused.stderr
    assert len(load_profile(str(tmp_path / "cluster_profiles/one.yaml")).nodes) == 1
    words = ("profiles", "init", "two", "--hostfile", str(hostfile), "--trust-hosts")
    assert "SHA256:" in harness.fsdpctl(*words, cwd=tmp_path).stderr
    profile = load_profile(str(tmp_path / "cluster_profiles/two.yaml"))
    assert (len(profile.nodes), profile.network.interface) == (2, "e0")


def test_nothing_is_written_where_no_host_can_be_seen(cluster: Cluster, tmp_path: Path) -> None:
    cluster.lan.know()
    done = harness.fsdpctl("profiles", "init", "none", "--hosts", "10.77.0.1", cwd=tmp_path, expect=4)
    assert "no host could be seen" in done.stderr
    assert not (tmp_path / "cluster_profiles").exists()
