"""`fsdpctl doctor` under Slurm: nodes are allocated for it, and given back."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl
from tests.backends.local.test_doctor import accused
from tests.backends.slurm.profile import write_contained_profile, write_profile
from tests.services import require
from tests.testbed.slurm import SlurmCluster


@pytest.fixture(autouse=True)
def _needs_torch() -> None:
    require("torch")


def test_nodes_are_allocated_checked_and_released(slurm: SlurmCluster, tmp_path: Path) -> None:
    profile = write_contained_profile(tmp_path, runs_root=tmp_path / "runs")
    done = fsdpctl("doctor", profile, "--nodes", "3", "--json", cwd=tmp_path)
    nodes = json.loads(done.stdout)["nodes"]
    found = {node["node"]: {finding["check"]: finding for finding in node["findings"]} for node in nodes}
    assert list(found) == ["node1", "node2", "node3"]
    assert accused(found) == {node: {"scheduler"} for node in found}
    told = "can preempt the run with 25 s to save (GraceTime 20, KillWait 5), but its grace is 1m"
    assert told in found["node1"]["scheduler"]["reason"]
    assert all(node["connect"]["result"] == "ok" for node in found.values())
    assert found["node3"]["shared"]["result"] == "ok"
    assert not slurm.run("squeue", "--noheader", "--states=RUNNING,PENDING")


def test_a_setup_line_that_fails_is_named_and_the_nodes_are_released(slurm: SlurmCluster, tmp_path: Path) -> None:
    profile = Path(write_profile(tmp_path))
    profile.write_text(profile.read_text() + "setup: ['echo no module cuda/99 >&2; exit 3']\n")
    done = fsdpctl("doctor", str(profile), "--json", cwd=tmp_path, expect=1)
    for node in json.loads(done.stdout)["nodes"]:
        found = {finding["check"]: finding["reason"] for finding in node["findings"]}
        assert found.keys() == {"reach", "scheduler"}
        assert found["reach"] == "exit code 3: no module cuda/99"
    assert not slurm.run("squeue", "--noheader", "--states=RUNNING,PENDING")


def test_more_nodes_than_slurm_has_are_a_launch_error(slurm: SlurmCluster, tmp_path: Path) -> None:
    done = fsdpctl("doctor", write_profile(tmp_path), "--nodes", "9", cwd=tmp_path, expect=4)
    assert "Slurm does not give 9 nodes now: allocation failure: Requested node" in done.stderr, done.stderr
    assert not slurm.run("squeue", "--noheader")
