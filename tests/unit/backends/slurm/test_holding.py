"""The batch script of a hold, and what its job reports of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.backends.base import HoldView
from fsdpctl.backends.slurm import holding
from fsdpctl.backends.slurm.holding import hold_script, look
from fsdpctl.contract.paths import HoldPaths
from fsdpctl.holds.record import Hold
from tests.unit.backends.slurm.test_batch_script import plan


def test_the_job_has_the_options_of_the_profile_and_the_time_of_the_hold() -> None:
    record = Hold("dev", "h100", "slurm", 3, created=0.0, time_s=5400, idle_s=600)
    lines = hold_script(HoldPaths(Path("/runs/.holds/dev")), record, plan()).splitlines()
    options = [line.removeprefix("#SBATCH ") for line in lines if line.startswith("#SBATCH ")]
    assert {"--job-name=fsdpctl-hold-dev", "--nodes=3", "--time=0-01:30:00", "--no-requeue"} <= set(options)
    given = plan().slurm
    assert given is not None and options[-len(given.options) :] == list(given.options)
    assert lines[-1].endswith("-m fsdpctl.backends.slurm.job.hold /runs/.holds/dev")
    assert "export PYTHONPATH=/runs/.holds/dev/code" in lines


def test_its_log_is_below_a_path_with_a_pattern_of_sbatch() -> None:
    record = Hold("dev", "h100", "slurm", 1, created=0.0, time_s=60, idle_s=60)
    script = hold_script(HoldPaths(Path("/my %j/.holds/dev")), record, plan())
    assert '#SBATCH --output="/my %%j/.holds/dev/batch.log"\n' in script


@pytest.mark.parametrize("state", ["BOOT_FAIL", "CANCELLED", "COMPLETING", "DEADLINE", "OUT_OF_MEMORY", "REVOKED"])
def test_a_hold_whose_job_ends_is_over(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hold = HoldPaths(Path("/runs/.holds/dev"))
    monkeypatch.setattr(holding, "ask", lambda argv, env: f"fsdpctl-hold-dev|7|{state}|None|{hold.root}\n")
    assert look([hold]) == {hold: HoldView("over", f"job 7 is {state}")}
