"""The quick start of SSH, run line by line on real hosts."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.backends.harness import Run, fsdpctl
from tests.backends.pages import ROOT, commands, edit_profile, run, write_smallest_job
from tests.backends.ssh.cluster import Cluster
from tests.services import require

PAGE = "docs/quickstart-ssh.md"


@pytest.mark.timeout(600)
def test_the_quick_start(cluster: Cluster, tmp_path: Path) -> None:
    """Its profile has the addresses of the testbed; the shared directory and the interpreter are others."""
    require("torch")
    project = tmp_path / "my project"
    write_smallest_job(project)
    cluster.lan.know()
    words = commands(PAGE)
    names = ["profiles", "profiles", "doctor", "submit", "submit", "status", "status", "logs"]
    assert [line[0] for line in words] == names
    for line in words:
        printed = run(line, project)
        if line[:2] == ["profiles", "init"]:
            (shown,) = re.findall(r"^```yaml\n(.*?)^```", (ROOT / PAGE).read_text(), re.DOTALL | re.MULTILINE)
            profile = project / f"cluster_profiles/{line[2]}.yaml"
            assert profile.exists()
            profile.write_text(shown)
            edit_profile(profile, {"runs_root": None, "venv": None, "python": sys.executable})
        if line[0] == "doctor":
            assert printed.count("new host key") == 3
    (row,) = json.loads(fsdpctl("ls", "--json", cwd=project).stdout)
    assert Run.of(row, project).wait_ended()["state"] == "SUCCEEDED"
    cluster.assert_clean()
