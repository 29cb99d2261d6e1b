"""What this Slurm will do to a run: read from `scontrol show config` and `show partition`, said before it happens."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fsdpctl.contract.checkpoint import save_fits
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launchers.slurm.env import tool_environment
from fsdpctl.node.slurm.commands import SlurmError, ask
from fsdpctl.specs.types import format_duration

_TIME = re.compile(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)")


@dataclass(frozen=True)
class Site:
    """One partition, and what of the whole cluster concerns it."""

    partition: str
    max_time_s: int | None
    grace_s: int  # of a preemption
    preempt_mode: str  # "OFF" where no job of the partition is ever preempted
    kill_wait_s: int = 30  # from TERM to KILL
    signal: str = "TERM"  # what begins the grace: to the steps, or USR2 to the batch script


def read_site(plan: LaunchPlan) -> Site | None:
    """Ask the controller; None when it does not answer or does not know the partition, which sbatch will tell."""
    try:
        config = ask(["scontrol", "show", "config"], tool_environment())
        partitions = ask(["scontrol", "--oneliner", "show", "partition"], tool_environment())
    except SlurmError:
        return None
    return parse_site(config, partitions, chosen_partition(plan))


def chosen_partition(plan: LaunchPlan) -> str | None:
    """The partition of the profile; None means Slurm's default."""
    assert plan.slurm is not None
    named = [option.partition("=")[2] for option in plan.slurm.options if option.startswith("--partition=")]
    return named[-1] if named else None


def parse_site(config: str, partitions: str, wanted: str | None) -> Site | None:
    """Put both texts together. Pure."""
    settings = dict(re.findall(r"^(\w+)\s*= (.*?)\s*$", config, re.MULTILINE))
    for line in partitions.splitlines():
        keys = dict(re.findall(r"(\w+)=(\S*)", line))
        if keys.get("PartitionName") == wanted or (wanted is None and keys.get("Default") == "YES"):
            return _site(keys, settings)
    return None


def _site(keys: Mapping[str, str], settings: Mapping[str, str]) -> Site:
    kill_wait = re.match(r"\d+", settings.get("KillWait", ""))
    return Site(
        partition=keys["PartitionName"],
        max_time_s=parse_time(keys.get("MaxTime", "")),
        grace_s=int(keys.get("GraceTime", "0")),
        kill_wait_s=int(kill_wait[0]) if kill_wait else Site.kill_wait_s,
        signal="USR2" if "preempt_send_user_signal" in settings.get("SlurmctldParameters", "") else "TERM",
        preempt_mode="OFF" if settings.get("PreemptType") == "preempt/none" else keys.get("PreemptMode", "OFF"),
    )


def parse_time(text: str) -> int | None:
    """Slurm's D-HH:MM:SS, HH:MM:SS or MM:SS in seconds; None for UNLIMITED, NONE and the like."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def describe(site: Site, plan: LaunchPlan) -> str:
    """What happens to a run on this partition, in one line. Pure."""
    assert plan.slurm is not None
    length = f"at most {format_duration(site.max_time_s)}" if site.max_time_s is not None else "any length"
    allocations = f"partition {site.partition}: allocations of {length}"
    if site.preempt_mode == "OFF":
        return f"{allocations}, never preempted"
    begin = f"{site.signal} {site.grace_s} s before that" if site.grace_s else "without a warning"
    then = "comes back" if plan.slurm.max_requeues else "stays ended (max_requeues: 0)"
    return (
        f"{allocations}; preempted ({site.preempt_mode}) with TERM, and KILL {site.kill_wait_s} s later, {begin};"
        f" the run {then}"
    )


def warnings(site: Site, plan: LaunchPlan, save_s: float = 0.0) -> list[str]:
    """What a user of this partition should know before a run is lost to it. Pure.

    `save_s` is what the newest checkpoint took; 0: nothing was saved yet, and the job's own grace has to do.
    """
    found = []
    if plan.time_limit_s is None and site.max_time_s is not None:
        longest = format_duration(site.max_time_s)
        found.append(
            f"no time limit is asked for, and partition {site.partition} gives at most {longest}:"
            f" set backend.time to {longest}, so that the run saves and comes back by itself"
        )
    if site.preempt_mode == "OFF":
        return found
    is_short = not save_fits(save_s, site.grace_s) if save_s else site.grace_s < plan.grace_s
    if is_short:
        needed = (
            f"the newest checkpoint took {save_s:.0f} s" if save_s else f"its grace is {format_duration(plan.grace_s)}"
        )
        found.append(
            f"partition {site.partition} can preempt the run with {site.grace_s} s to save, but {needed}: then the last"
            " checkpoint counts"
        )
    if "CANCEL" in site.preempt_mode:
        found.append(
            f"partition {site.partition} cancels what it preempts: the run puts itself back into the queue, for which"
            f" it has {site.kill_wait_s} s; should it not get there, `--follow` or `fsdpctl resume` submits it again"
        )
    return found
