"""`fsdpctl bench scaling` where no disk is shared: its numbers come back from the head."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl
from tests.backends.ssh.cluster import Cluster
from tests.services import require

pytestmark = pytest.mark.slow


def test_a_point_of_two_hosts_without_a_shared_disk(cluster: Cluster, tmp_path: Path) -> None:
    require("torch")
    cluster.private = True
    cluster.write_profile()
    words = ("bench", "scaling", "llm-tiny", "-p", str(cluster.profile), "--gpus", "2", "--strategy", "FULL_SHARD")
    (point,) = json.loads(fsdpctl(*words, "--steps", "2", "--json", cwd=tmp_path).stdout)["points"]
    assert (point["nodes"], point["strategy"], point["state"]) == (2, "FULL_SHARD", "SUCCEEDED")
    assert point["measured"]["tokens_per_s"] > 0 and point["measured"]["communication_share"] > 0
