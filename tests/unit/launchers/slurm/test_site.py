from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launchers.slurm.site import Site, chosen_partition, describe, parse_site, parse_time, warnings
from fsdpctl.plan import Site as Here
from fsdpctl.plan import build_plan
from fsdpctl.specs.load import load_job, load_profile

# 22.05.8, from the testbed of this project, shortened.
CONFIG = """\
Configuration data as of 2026-11-28T00:50:05
JobRequeue              = 1
PreemptMode             = REQUEUE
KillWait                = 5 sec
PreemptType             = preempt/partition_prio
SlurmctldParameters     = (null)
"""
PARTITIONS = """\
PartitionName=main AllowGroups=ALL Default=YES DefaultTime=NONE GraceTime=20 MaxTime=UNLIMITED PreemptMode=REQUEUE
PartitionName=short AllowGroups=ALL Default=NO DefaultTime=NONE GraceTime=0 MaxTime=1-04:00:00 PreemptMode=OFF
"""
MAIN = Site("main", None, grace_s=20, preempt_mode="REQUEUE", kill_wait_s=5)


def test_the_partition_is_the_one_that_the_job_gets() -> None:
    assert parse_site(CONFIG, PARTITIONS, None) == MAIN
    assert parse_site(CONFIG, PARTITIONS, "short") == Site("short", 100_800, 0, "OFF", kill_wait_s=5)
    assert parse_site(CONFIG, PARTITIONS, "none-such") is None
    assert parse_site("", "", None) is None


def test_nobody_is_preempted_where_preemption_is_off() -> None:
    site = parse_site(CONFIG.replace("partition_prio", "none"), PARTITIONS, "main")
    assert site is not None and site.preempt_mode == "OFF"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-04:00:00", 100_800), ("04:00:00", 14_400), ("30:00", 1800), ("UNLIMITED", None), ("NONE", None), ("", None)],
)
def test_times(text: str, seconds: int | None) -> None:
    assert parse_time(text) == seconds


def plan(*overrides: str) -> LaunchPlan:
    here = Here("r-aaaa", "/runs/r-aaaa", "/", "python3", ())
    return build_plan(load_profile("slurm-h100"), load_job("llm300m", list(overrides)), here)


def test_a_short_grace_is_said_before_it_matters() -> None:
    assert chosen_partition(plan()) == "gpu"
    (said,) = warnings(MAIN, plan("grace=2m"))
    assert "can preempt the run with 20 s to save, but its grace is 2m" in said
    assert warnings(MAIN, plan("grace=20s")) == []
    assert warnings(MAIN, plan("grace=2m"), save_s=10.0) == [], "it was measured to fit"
    (said,) = warnings(MAIN, plan("grace=20s"), save_s=25.0)
    assert "can preempt the run with 20 s to save, but the newest checkpoint took 25 s" in said
    assert warnings(replace(MAIN, preempt_mode="OFF"), plan("grace=2m")) == []


def test_a_site_that_cancels_is_named() -> None:
    said = warnings(replace(MAIN, preempt_mode="CANCEL", grace_s=0), plan("grace=1s"))
    assert "cancels what it preempts: the run puts itself back into the queue, for which it has 5 s" in said[-1]


def test_the_signal_that_comes_is_said() -> None:
    site = parse_site(CONFIG.replace("(null)", "preempt_send_user_signal,enable_configless"), PARTITIONS, "main")
    assert site is not None
    assert describe(site, plan()) == (
        "partition main: allocations of any length; preempted (REQUEUE) with TERM, and KILL 5 s later, USR2 20 s"
        " before that; the run comes back"
    )
    assert describe(replace(MAIN, grace_s=0), plan()).endswith("KILL 5 s later, without a warning; the run comes back")
    assert describe(replace(MAIN, preempt_mode="OFF", max_time_s=14_400), plan()) == (
        "partition main: allocations of at most 4h, never preempted"
    )


def test_a_partition_with_a_limit_wants_to_be_told() -> None:
    limited = replace(MAIN, max_time_s=14_400)
    assert any("set backend.time to 4h" in said for said in warnings(limited, replace(plan(), time_limit_s=None)))
    assert warnings(limited, plan("grace=20s")) == []
