"""doctor: is every node of a cluster fit for a run?"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from fsdpctl.contract.findings import Check, Finding, ok, unknown, warn
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.examine import Examined, examine
from fsdpctl.doctor.probe_requests import plan_nodes
from fsdpctl.doctor.transport import open_transport
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.submit import predict_scheduling, runs_root_of, submit_host


def examine_cluster(profile: ClusterProfile, num_nodes: int | None = None) -> list[Examined]:
    """Look at all nodes of a profile together, or at the first `num_nodes`. Leaves nothing behind on any of them."""
    site = submit_host(profile, runs_root_of(profile), f"fsdpctl-doctor-{os.urandom(4).hex()}", Path.cwd())
    with open_transport(profile, plan_nodes(profile, site, num_nodes)) as (plan, reach):
        examined = examine(plan, reach)
    return [replace(node, findings=(*node.findings, *scheduler_findings(plan))) for node in examined]


def scheduler_findings(plan: LaunchPlan) -> list[Finding]:
    """What the scheduler will do to runs of this profile: the same for all of its nodes."""
    if plan.backend != "slurm":
        return []
    site, warnings = predict_scheduling(plan)
    if not site:
        return [unknown(Check.SCHEDULER, "`scontrol` does not tell of the partition")]
    if not warnings:
        return [ok(Check.SCHEDULER, site)]
    return [warn(Check.SCHEDULER, "; ".join([site, *warnings]), "docs/launchers-slurm.md says what brings a run back")]
