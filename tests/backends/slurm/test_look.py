"""`fsdpctl profiles init --look` on a login node: the partitions of a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.profile_keys import SlurmSection
from fsdpctl.specs.load import load_profile
from tests.backends.harness import fsdpctl
from tests.services import require
from tests.testbed.slurm import SlurmCluster


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    require("torch")


def test_the_default_partition_becomes_a_profile_that_doctor_accepts(slurm: SlurmCluster, tmp_path: Path) -> None:
    done = fsdpctl("profiles", "init", "seen", "--look", cwd=tmp_path)
    assert "partition main (default): node[1-4]: no GPU, 2 CPUs, 2 GiB; jobs of any length" in done.stderr
    profile = load_profile(str(tmp_path / "cluster_profiles/seen.yaml"))
    assert isinstance(profile.backend, SlurmSection)
    assert (profile.backend.partition, profile.gpus_per_node) == ("main", 0)
    assert "# partition: high  # partition high: node[1-4]" in (tmp_path / "cluster_profiles/seen.yaml").read_text()
    of_testbed = "allow_loopback: true\nmaster_address: 127.0.0.1\n"  # its nodes share this machine's addresses
    written = tmp_path / "cluster_profiles/seen.yaml"
    written.write_text(written.read_text().replace("interface: auto", "interface: lo") + of_testbed)
    checked = json.loads(fsdpctl("doctor", "seen", "--json", cwd=tmp_path).stdout)
    assert checked["ok"] and len(checked["nodes"]) == 2
