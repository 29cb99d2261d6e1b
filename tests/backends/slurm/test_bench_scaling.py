"""`fsdpctl bench scaling` as jobs of Slurm: the same code, on the nodes of an allocation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl
from tests.backends.slurm.profile import write_profile
from tests.testbed.slurm import SlurmCluster

pytestmark = pytest.mark.slow


def test_a_point_of_two_nodes(slurm: SlurmCluster, tmp_path: Path) -> None:
    words = ("bench", "scaling", "llm-tiny", "-p", write_profile(tmp_path), "--gpus", "4", "--steps", "2", "--json")
    (point,) = json.loads(fsdpctl(*words, cwd=tmp_path).stdout)["points"]
    assert (point["nodes"], point["strategy"], point["state"]) == (2, "HYBRID_SHARD", "SUCCEEDED")
    assert point["measured"]["tokens_per_s"] > 0 and point["measured"]["communication_share"] > 0
