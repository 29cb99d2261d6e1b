"""What a run has used, by the accounts of a real Slurm."""

from __future__ import annotations

import json
from pathlib import Path

from tests.backends.harness import fsdpctl, wait_for
from tests.backends.slurm.profile import submit_to, write_profile
from tests.services import require
from tests.testbed.slurm import SlurmCluster


def test_usage_has_the_hours_of_the_job_by_slurms_accounts(
    slurm: SlurmCluster, accounting: str, tmp_path: Path
) -> None:
    require("torch")
    (tmp_path / "script.py").write_text("")
    (tmp_path / "job.yaml").write_text("name: used\nprocs_per_node: 1\nentrypoint: {script: script.py}\n")
    run = submit_to(slurm, "job.yaml", "--profile", write_profile(tmp_path), cwd=tmp_path)
    assert run.wait_ended()["state"] == "SUCCEEDED", run.describe()

    def usage() -> dict[str, float | None] | None:
        (row,) = json.loads(fsdpctl("usage", "--json", cwd=tmp_path).stdout)["runs"]
        return row if row["slurm_hours"] else None

    row = wait_for(usage, 60, "the accounts")
    assert row["slurm_hours"] * 3600 + 1 >= row["hours"] * 3600 > 0
    assert row["cpu_efficiency"] is None or 0 <= row["cpu_efficiency"] <= 1.5
