"""The SSH launcher on real hosts: the common behaviour, and what only several machines can show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launchers.contract import LauncherContract
from tests.launchers.ssh_cluster import Cluster


class TestSsh(LauncherContract):
    @pytest.fixture
    def project(self, tmp_path: Path, cluster: Cluster) -> Path:
        self.profile = str(cluster.profile)
        self.cluster = cluster
        directory = tmp_path / "my project"
        directory.mkdir()
        return directory
