"""The quick start of Slurm, run line by line on a real cluster."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.backends.harness import fsdpctl
from tests.backends.pages import commands, edit_profile, run, write_smallest_job
from tests.services import require
from tests.testbed.slurm import SlurmCluster

PAGE = "docs/quickstart-slurm.md"
NO_GPUS = {"gpus_per_node": None, "gpu": None, "procs_per_node": 1}
"""Instead of what the page's profile has for its H100s."""
ONE_MACHINE = {"allow_loopback": True, "master_address": "127.0.0.1", "network": {"interface": "lo"}}
"""The nodes of the testbed share this machine's addresses."""


@pytest.mark.timeout(600)
def test_the_quick_start(slurm: SlurmCluster, tmp_path: Path) -> None:
    require("torch")
    project = tmp_path / "my project"
    write_smallest_job(project)
    words = commands(PAGE)
    names = ["profiles", "profiles", "doctor", "submit", "submit", "status", "stop", "resume"]
    assert [line[0] for line in words] == names
    for line in words:
        run(line, project)
        if line[:2] == ["profiles", "init"]:
            changes = {"backend": {"kind": "slurm", "partition": "main"}, "python": sys.executable}
            edit_profile(project / f"cluster_profiles/{line[2]}.yaml", {**changes, **NO_GPUS, **ONE_MACHINE})
    (row,) = json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
    assert (row["state"], row["step"]) == ("SUCCEEDED", 30)
