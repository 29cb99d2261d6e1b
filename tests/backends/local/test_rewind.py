"""resume --step where all nodes share a disk; without one, see tests/backends/ssh/test_private_disks.py."""

from __future__ import annotations

import json
from pathlib import Path

from tests.backends.harness import fsdpctl, submit


def test_resume_with_step_rewinds_the_run(project: Path) -> None:
    job = ("./exact.yaml", "--nodes", "1", "--set", "trainer.steps=21", "--set", "trainer.checkpoint.keep=9")
    run = submit(*job, cwd=project)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    before = run.curve()
    refused = fsdpctl("resume", run.run_id, "--step", "8", "--set", "trainer.steps=14", cwd=project, expect=2)
    assert f"run {run.run_id} has no checkpoint of step 8; it has 7, 14, 21" in refused.stderr
    fsdpctl("resume", run.run_id, "--step", "7", "--set", "trainer.steps=14", cwd=project)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()
    assert run.curve()[:7] == before[:7]
    assert [(line["step"], line["attempt"]) for line in run.metrics()] == [
        (step, 1 if step <= 7 else 2) for step in range(1, 15)
    ]
    aside = run.paths.checkpoints / "set-aside-1"
    assert sorted(path.name for path in aside.iterdir()) == ["step-00000014", "step-00000021"]
    rows = json.loads(fsdpctl("checkpoints", "ls", "--json", cwd=project).stdout)
    assert [row["step"] for row in rows] == [14, 7]
