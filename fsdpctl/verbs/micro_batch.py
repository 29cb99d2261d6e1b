"""Choose the micro-batch of a job that gives none, once, when it is submitted: a resume has the same."""

from __future__ import annotations

from dataclasses import replace

from fsdpctl.contract.cards import GIB
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import UsageError
from fsdpctl.estimate.micro_batch import fastest_micro_batch
from fsdpctl.estimate.result import Cluster, Fit
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.cards import find_profile_card

CPU_MICRO_BATCH = 8
"""Sequences of a pass on CPUs, whose memory is not estimated: more of them are hardly faster."""


def plan_with_micro_batch(
    profile: ClusterProfile, job: JobSpec, host: SubmitHost
) -> tuple[JobSpec, LaunchPlan, tuple[str, ...]]:
    """Build the plan; return the job with a micro-batch, its plan, and a line on what was chosen, if anything was."""
    plan = build_plan(profile, job, host)
    chosen, notices = choose_micro_batch(profile, job, plan)
    return chosen, plan if chosen == job else build_plan(profile, chosen, host), notices


def choose_micro_batch(profile: ClusterProfile, job: JobSpec, plan: LaunchPlan) -> tuple[JobSpec, tuple[str, ...]]:
    """Return the job with a micro-batch, and a line on it; the same job where it has one.

    Raise UsageError where the kind of GPU is not known.
    """
    if job.trainer is None or job.trainer.batch.micro_batch is not None:
        return job, ()
    if plan.device != "cuda":
        return _with_micro_batch(job, CPU_MICRO_BATCH), (f"micro-batch {CPU_MICRO_BATCH} at most, as always on CPUs",)
    if (found := find_profile_card(profile)) is None:
        raise UsageError(
            f"job {job.name} has no trainer.batch.micro_batch, and profile {profile.name} no `gpu` to choose it for",
            hint="set one of them: `gpu: h100-80` in the profile, or --set trainer.batch.micro_batch=1",
        )
    card, _ = found
    cluster = Cluster(len(plan.nodes), plan.procs_per_node, profile.network.gbps)
    best = fastest_micro_batch(job.trainer, cluster, card)
    size, needs = best.batch.micro_batch, best.memory.total / GIB
    if best.fit is Fit.TOO_LARGE:
        return _with_micro_batch(job, size), ()
    line = f"micro-batch {size}: about {needs:.1f} of the {card.memory_gib:.1f} GiB of each {card.name}"
    return _with_micro_batch(job, size), (line,)


def _with_micro_batch(job: JobSpec, size: int) -> JobSpec:
    assert job.trainer is not None
    trainer = replace(job.trainer, batch=replace(job.trainer.batch, micro_batch=size))
    return job.model_copy(update={"trainer": trainer})
