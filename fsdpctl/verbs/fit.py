"""Refuse, before anything starts, what cannot fit the memory of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass

from fsdpctl.contract.cards import GIB
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import UsageError
from fsdpctl.estimate.accumulation import explain_misfit
from fsdpctl.estimate.changes import set_options
from fsdpctl.estimate.choices import Planner
from fsdpctl.estimate.result import Cluster, Fit, estimate
from fsdpctl.specs.job import JobSpec
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.cards import find_profile_card


@dataclass(frozen=True)
class MemoryProblem:
    """A job that does not fit its GPUs, or so closely that it may run out of memory."""

    fit: Fit
    text: str
    advice: str  # the smallest change that fits


def find_memory_problem(profile: ClusterProfile, job: JobSpec, plan: LaunchPlan) -> MemoryProblem | None:
    """Return what is wrong with the memory of a launch. Own scripts and GPUs that are not known are not judged."""
    if job.trainer is None or plan.device != "cuda" or (found := find_profile_card(profile)) is None:
        return None
    card, source = found
    planner = Planner(job.trainer, Cluster(len(plan.nodes), plan.procs_per_node, profile.network.gbps), card)
    result = estimate(job.trainer, planner.cluster, card)
    if result.fit is Fit.FITS:
        return None
    needs, left = result.memory.total / GIB, result.left_bytes / GIB
    text = f"job {job.name} needs about {needs:.1f} GiB of each GPU, and a {card.name} ({source}) has"
    text += f" {card.memory_gib:.1f}: {f'{-left:.1f} GiB too much' if left < 0 else f'only {left:.1f} GiB are left'}"
    return MemoryProblem(result.fit, text, describe_smallest_change(planner))


def describe_smallest_change(planner: Planner) -> str:
    """Return the options that make a job fit."""
    if (choice := planner.smallest_change()) is None:
        return explain_misfit(planner)
    if not choice.keys:
        return "`fsdpctl estimate` lists what takes the memory"
    return f"the smallest change that fits: {set_options(choice.keys)} ({choice.estimate.memory.total / GIB:.1f} GiB)"


def check_memory(profile: ClusterProfile, job: JobSpec, plan: LaunchPlan, *, force: bool) -> str | None:
    """Raise UsageError for a launch that cannot fit, unless it is forced; return a warning where it may not."""
    problem = find_memory_problem(profile, job, plan)
    if problem is None:
        return None
    if problem.fit is Fit.TOO_LARGE and not force:
        raise UsageError(problem.text, hint=f"{problem.advice}; --force starts it all the same")
    return f"{problem.text}; {problem.advice}"
