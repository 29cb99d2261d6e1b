"""Predict what Slurm will do to a run on its partition: time limit, preemption, requeue."""

from __future__ import annotations

import os

from fsdpctl.backends.base import Prediction
from fsdpctl.backends.slurm.allocation import find_allocation
from fsdpctl.backends.slurm.environment import tool_environment
from fsdpctl.backends.slurm.job.partition import Partition, read_partitions
from fsdpctl.contract.formats.manifest import save_fits
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.schema.types import format_duration


def predict(plan: LaunchPlan, save_s: float) -> Prediction:
    """Return what will happen to a run on its partition, or on each that it may get; empty if the controller does not
    answer.

    `save_s`: seconds that the newest checkpoint took; 0: nothing was saved yet, and the job's grace counts.
    """
    if plan.hold is not None:
        return Prediction()
    if (job_id := find_allocation(os.environ)) is not None:
        inside = f"the run starts in allocation {job_id} of this shell, and ends with it at the latest"
        return Prediction(inside, (f"{inside}; partition, time and other options of the profile do not count",))
    partitions = read_partitions(chosen_partitions(plan), tool_environment())
    return Prediction(
        "\n".join(describe(partition, plan) for partition in partitions),
        tuple(warning for partition in partitions for warning in warnings(partition, plan, save_s)),
    )


def chosen_partitions(plan: LaunchPlan) -> str | None:
    """Return the partition of the profile, or several joined by commas; None means Slurm's default."""
    assert plan.slurm is not None
    named = [option.partition("=")[2] for option in plan.slurm.options if option.startswith("--partition=")]
    return named[-1] if named else None


def describe(partition: Partition, plan: LaunchPlan) -> str:
    """Return in one line what happens to a run on this partition. Pure."""
    assert plan.slurm is not None
    length = f"at most {format_duration(partition.max_time_s)}" if partition.max_time_s is not None else "any length"
    allocations = f"partition {partition.name}: allocations of {length}"
    if not partition.is_preempted:
        return f"{allocations}, never preempted"
    begin = f"{partition.signal} {partition.grace_s} s before that" if partition.grace_s else "without a warning"
    then = "comes back" if plan.slurm.max_requeues else "stays ended (max_requeues: 0)"
    return (
        f"{allocations}; preempted ({partition.preempt_mode}) with TERM, and KILL {partition.kill_wait_s} s later,"
        f" {begin}; the run {then}"
    )


def warnings(partition: Partition, plan: LaunchPlan, save_s: float = 0.0) -> list[str]:
    """Return warnings about this partition's time limit and preemption for a run. Pure.

    `save_s`: seconds that the newest checkpoint took; 0: nothing was saved yet, and the job's grace counts.
    """
    found = []
    if plan.time_limit_s is None and partition.max_time_s is not None:
        longest = format_duration(partition.max_time_s)
        found.append(
            f"no time limit is asked for, and partition {partition.name} gives at most {longest}:"
            f" set backend.time to {longest}, so that the run saves and comes back by itself"
        )
    if not partition.is_preempted:
        return found
    is_short = not save_fits(save_s, partition.time_to_save_s) if save_s else partition.time_to_save_s < plan.grace_s
    if is_short:
        needed = (
            f"the newest checkpoint took {save_s:.0f} s" if save_s else f"its grace is {format_duration(plan.grace_s)}"
        )
        found.append(
            f"partition {partition.name} can preempt the run with {partition.time_to_save_s} s to save"
            f" (GraceTime {partition.grace_s}, KillWait {partition.kill_wait_s}), but {needed}:"
            " a save that does not fit is not begun, and the last checkpoint counts"
        )
    if "CANCEL" in partition.preempt_mode:
        found.append(
            f"partition {partition.name} cancels what it preempts: the run puts itself back into the queue, for which"
            f" it has {partition.kill_wait_s} s; should it not get there, `--follow` or `fsdpctl resume` submits it"
            " again"
        )
    return found
