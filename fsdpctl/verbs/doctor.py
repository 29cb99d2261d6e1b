"""Check every node of a cluster, and what the scheduler will do there."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.findings import Check, Finding, ok, unknown, warn
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.examine import Examined, Report, examine
from fsdpctl.doctor.probe_requests import plan_nodes
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.checks.notify import check_targets
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.verbs.submit_host import runs_root_of, submit_host


def examine_cluster(
    profile: ClusterProfile, num_nodes: int | None = None, report: Report = lambda doing: None
) -> list[Examined]:
    """Check all nodes of a profile together, or the first `num_nodes`. Leave nothing behind on any of them."""
    plan = plan_nodes(profile, _submit_host(profile), num_nodes)
    report(f"opening {len(plan.nodes)} node{'s' if len(plan.nodes) > 1 else ''} of {profile.name}")
    with closing(get_backend(plan.backend).open_probe_transport(plan)) as transport:
        examined = examine(transport, report)
    common = (*scheduler_findings(plan), *([] if plan.slurm is not None else check_targets(plan.notify)))
    return [replace(node, findings=(*node.findings, *common)) for node in examined]


def trust_cluster(profile: ClusterProfile, report: Callable[[str], None]) -> None:
    """Store the host keys that known_hosts does not have yet, of all hosts of a profile and its spares."""
    plan = plan_nodes(profile, _submit_host(profile))
    get_backend(plan.backend).trust_hosts(plan, report)


def _submit_host(profile: ClusterProfile) -> SubmitHost:
    return submit_host(profile, runs_root_of(profile), f"fsdpctl-doctor-{os.urandom(4).hex()}", Path.cwd())


def scheduler_findings(plan: LaunchPlan) -> list[Finding]:
    """Return what the scheduler will do to runs of this profile: the same for all of its nodes."""
    backend = get_backend(plan.backend)
    if not backend.has_scheduler:
        return []
    predicted = backend.predict(plan)
    if not predicted.text:
        return [unknown(Check.SCHEDULER, "`scontrol` does not report the partition")]
    if not predicted.warnings:
        return [ok(Check.SCHEDULER, predicted.text)]
    fix = "docs/launchers-slurm.md describes how a run is requeued"
    return [warn(Check.SCHEDULER, "; ".join([predicted.text, *predicted.warnings]), fix)]
