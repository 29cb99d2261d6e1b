from __future__ import annotations

from pathlib import Path

from fsdpctl.backends.slurm.job_refs import SlurmRef, append_ref, read_ref, update_ref
from fsdpctl.contract import State
from fsdpctl.contract.paths import RunPaths


def test_the_newest_reference_counts_and_older_ones_stay(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    assert read_ref(run) is None
    append_ref(run, SlurmRef(1, 100.0))
    update_ref(run, job_id="7", final=State.CANCELLED, reason="cancelled")
    append_ref(run, SlurmRef(2, 200.0))
    assert read_ref(run) == SlurmRef(2, 200.0)
    assert '"job_id": "7"' in run.slurm.read_text()
