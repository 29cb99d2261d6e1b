from __future__ import annotations

from dataclasses import replace

from fsdpctl.backends.slurm.job.partition import Partition
from fsdpctl.backends.slurm.predict import chosen_partitions, describe, warnings
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_job, load_profile

MAIN = Partition("main", None, grace_s=20, preempt_mode="REQUEUE", kill_wait_s=5)


def plan(*overrides: str) -> LaunchPlan:
    here = SubmitHost("r-aaaa", "/runs/r-aaaa", "/", "python3", ())
    return build_plan(load_profile("slurm-h100"), load_job("llm300m", list(overrides)), here)


def test_a_short_grace_is_reported_before_it_matters() -> None:
    assert chosen_partitions(plan()) == "gpu"
    (warned,) = warnings(MAIN, plan("grace=2m"))
    assert "can preempt the run with 25 s to save (GraceTime 20, KillWait 5), but its grace is 2m" in warned
    assert warnings(MAIN, plan("grace=25s")) == []
    assert warnings(MAIN, plan("grace=2m"), save_s=10.0) == [], "it was measured to fit"
    (warned,) = warnings(MAIN, plan("grace=20s"), save_s=24.0)
    assert "25 s to save (GraceTime 20, KillWait 5), but the newest checkpoint took 24 s" in warned
    assert warnings(replace(MAIN, preempt_mode="OFF"), plan("grace=2m")) == []


def test_a_partition_that_cancels_is_named() -> None:
    warned = warnings(replace(MAIN, preempt_mode="CANCEL", grace_s=0), plan("grace=1s"))
    assert "cancels what it preempts: the run puts itself back into the queue, for which it has 5 s" in warned[-1]


def test_the_signal_is_reported() -> None:
    assert describe(replace(MAIN, signal="USR2"), plan()) == (
        "partition main: allocations of any length; preempted (REQUEUE) with TERM, and KILL 5 s later, USR2 20 s"
        " before that; the run comes back"
    )
    assert describe(replace(MAIN, grace_s=0), plan()).endswith("KILL 5 s later, without a warning; the run comes back")
    assert describe(replace(MAIN, preempt_mode="OFF", max_time_s=14_400), plan()) == (
        "partition main: allocations of at most 4h, never preempted"
    )


def test_a_missing_time_limit_is_reported() -> None:
    limited = replace(MAIN, max_time_s=14_400)
    assert any("set backend.time to 4h" in warned for warned in warnings(limited, replace(plan(), time_limit_s=None)))
    assert warnings(limited, plan("grace=20s")) == []
