from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.backends.slurm.job.agents import preempt_grace_s
from fsdpctl.backends.slurm.job.partition import Partition
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_job, load_profile

MAIN = Partition("main", None, grace_s=20, preempt_mode="REQUEUE", kill_wait_s=5)


@pytest.mark.parametrize(
    ("grace", "partition", "counts"),
    [
        ("20s", MAIN, 20),
        ("2m", MAIN, 25),
        ("2m", replace(MAIN, grace_s=0), 5),
        ("2m", replace(MAIN, preempt_mode="OFF"), 120),
        ("2m", None, 120),
    ],
)
def test_the_shorter_grace_counts(grace: str, partition: Partition | None, counts: int) -> None:
    site = SubmitHost("r-aaaa", "/runs/r-aaaa", "/", "python3", ())
    plan = build_plan(load_profile("slurm-h100"), load_job("llm300m", [f"grace={grace}"]), site)
    assert preempt_grace_s(plan, partition) == counts
