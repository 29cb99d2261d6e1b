"""A run over SSH whose agents are in a container, by a program that stands in for apptainer."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.backends.harness import fsdpctl
from tests.backends.ssh.cluster import Cluster
from tests.services import require

APPTAINER = f"""#!{sys.executable}
import os, subprocess, sys
words = sys.argv[2:]
while words[0].startswith("--"):
    words.pop(0)
assert os.path.exists(words.pop(0))
sys.exit(subprocess.call(words, env={{**os.environ, "IN_CONTAINER": "yes"}}))
"""
"""Like apptainer, it is another process than the agent, and remains its parent."""
SCRIPT = 'import os\nprint("inside:", os.environ["IN_CONTAINER"], flush=True)\n'


def test_agent_and_rank_are_in_it_and_the_host_is_clean_after_it(cluster: Cluster, tmp_path: Path) -> None:
    require("torch")
    program = tmp_path / "bin" / "apptainer"
    program.parent.mkdir()
    program.write_text(APPTAINER)
    program.chmod(0o755)
    (tmp_path / "main.py").write_text(SCRIPT)
    (tmp_path / "job.yaml").write_text("name: inside\nprocs_per_node: 1\nentrypoint: {script: main.py}\n")
    environment = f"{{kind: apptainer, image: {tmp_path}/main.py, python: {sys.executable}}}"
    cluster.private = True
    cluster.keys = f"setup: ['export PATH={program.parent}:$PATH']\nenvironment: {environment}\n"
    cluster.write_profile(hosts=1)
    run = cluster.submit_private("job.yaml", cwd=tmp_path)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    assert "inside: yes" in fsdpctl("logs", run.run_id, cwd=tmp_path).stdout
    cluster.assert_clean()
