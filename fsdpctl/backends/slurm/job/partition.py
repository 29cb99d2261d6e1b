"""One partition of this Slurm, from `scontrol show config` and `show partition`. Parsing is pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fsdpctl.backends.slurm.job.scontrol import SlurmError, ask

_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


@dataclass(frozen=True)
class Partition:
    """The limits of a partition's jobs, with the settings of the cluster that affect them."""

    name: str
    max_time_s: int | None
    grace_s: int  # of a preemption, from the first signal to the end of the job
    preempt_mode: str  # "OFF" if no job of the partition is ever preempted
    kill_wait_s: int = 30  # from the end of the job (TERM) to KILL
    signal: str = "TERM"  # sent at the start of the grace: TERM to the steps, or USR2 to the batch script

    @property
    def is_preempted(self) -> bool:
        return self.preempt_mode != "OFF"

    @property
    def time_to_save_s(self) -> int:
        """Seconds from the first signal of a preemption to KILL."""
        return self.grace_s + self.kill_wait_s


def read_partitions(names: str | None, env: Mapping[str, str] | None = None) -> list[Partition]:
    """Ask the controller about one or more partitions, joined by commas, None for the default one; return those that it
    knows, none without an answer.
    """
    try:
        config = ask(["scontrol", "show", "config"], env)
        partitions = ask(["scontrol", "--oneliner", "show", "partition"], env)
    except SlurmError:
        return []
    return parse_partitions(config, partitions, names)


def parse_partitions(config: str, partitions: str, names: str | None) -> list[Partition]:
    """Return partitions from the output of `scontrol show config` and `scontrol --oneliner show partition`."""
    settings = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", config, re.MULTILINE))
    known = [dict(re.findall(r"(\w+)=(\S*)", line)) for line in partitions.splitlines()]
    if names is None:
        return [_partition(keys, settings) for keys in known if keys.get("Default") == "YES"]
    return [_partition(keys, settings) for keys in known if keys.get("PartitionName") in names.split(",")]


def _partition(keys: Mapping[str, str], settings: Mapping[str, str]) -> Partition:
    kill_wait = re.match(r"\d+", settings.get("KillWait", ""))
    return Partition(
        name=keys["PartitionName"],
        max_time_s=parse_time(keys.get("MaxTime", "")),
        grace_s=int(keys.get("GraceTime", "0")),
        kill_wait_s=int(kill_wait[0]) if kill_wait else Partition.kill_wait_s,
        signal="USR2" if "preempt_send_user_signal" in settings.get("SlurmctldParameters", "") else "TERM",
        preempt_mode="OFF" if settings.get("PreemptType") == "preempt/none" else keys.get("PreemptMode", "OFF"),
    )


def parse_time(text: str) -> int | None:
    """Return Slurm's D-HH:MM:SS, HH:MM:SS or MM:SS in seconds; None for UNLIMITED, NONE and the like."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
