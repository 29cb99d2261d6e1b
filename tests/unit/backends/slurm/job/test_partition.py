"""Output of Slurm 22.05.8, from the testbed of this project, shortened."""

from __future__ import annotations

import pytest

from fsdpctl.backends.slurm.job.partition import Partition, parse_partitions, parse_time

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
MAIN = Partition("main", None, grace_s=20, preempt_mode="REQUEUE", kill_wait_s=5)


def test_the_partition_is_the_one_that_the_job_gets() -> None:
    short = Partition("short", 100_800, 0, "OFF", kill_wait_s=5)
    assert parse_partitions(CONFIG, PARTITIONS, None) == [MAIN]
    assert parse_partitions(CONFIG, PARTITIONS, "short") == [short]
    assert parse_partitions(CONFIG, PARTITIONS, "short,none-such,main") == [MAIN, short]
    assert parse_partitions(CONFIG, PARTITIONS, "none-such") == []
    assert parse_partitions("", "", None) == []


def test_no_job_is_preempted_if_preemption_is_off() -> None:
    (found,) = parse_partitions(CONFIG.replace("partition_prio", "none"), PARTITIONS, "main")
    assert not found.is_preempted


def test_a_cluster_may_send_a_signal_of_its_own() -> None:
    config = CONFIG.replace("(null)", "preempt_send_user_signal,enable_configless")
    (found,) = parse_partitions(config, PARTITIONS, "main")
    assert found.signal == "USR2"


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1-04:00:00", 100_800), ("04:00:00", 14_400), ("30:00", 1800), ("UNLIMITED", None), ("NONE", None), ("", None)],
)
def test_times(text: str, seconds: int | None) -> None:
    assert parse_time(text) == seconds
