"""Holds of hosts, with and without a disk that they share."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backends.holds import check_hold
from tests.backends.ssh.cluster import Cluster
from tests.services import require


@pytest.mark.timeout(300)
def test_a_hold_keeps_hosts_between_runs_and_their_fork_servers(cluster: Cluster, tmp_path: Path, home: Path) -> None:
    require("torch")
    check_hold(tmp_path, str(cluster.profile), held=2, nodes=1)
    cluster.assert_clean(limit_s=30)
