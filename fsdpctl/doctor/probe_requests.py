"""What to ask of which node. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.findings import LocalReport, ProbeRequest
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.job import Entrypoint, JobSpec
from fsdpctl.specs.profile import ClusterProfile

MAX_PORTS_TRIED = 16
"""A firewall rule covers a range or it does not: both ends and some between show it."""


def plan_nodes(profile: ClusterProfile, site: SubmitHost, num_nodes: int | None = None) -> LaunchPlan:
    """The plan of a job that takes every node of the profile, spares too: what is checked is what would run."""
    nodes = (*profile.nodes, *profile.spares)
    whole = profile.model_copy(update={"nodes": nodes, "spares": ()})
    everyone = len(nodes) or get_backend(profile.backend.kind).doctor_nodes
    job = JobSpec(name="doctor", nodes=num_nodes or everyone, entrypoint=Entrypoint(script="doctor"))
    return build_plan(whole, job, site)


def local_request(plan: LaunchPlan, rank: int) -> ProbeRequest:
    return ProbeRequest("local", plan, rank, probe_directory(plan))


def connectivity_request(
    plan: LaunchPlan, rank: int, head: LocalReport | None, partners: Sequence[int]
) -> ProbeRequest:
    """Who takes part, and where; without a head that can be met, only the disk is compared."""
    request = ProbeRequest("connectivity", plan, rank, probe_directory(plan), partners=tuple(partners))
    if head is None or head.head is None:
        return request
    return replace(request, head=plan.head.address or head.head, ports=spread(head.free_ports))


def clean_request(plan: LaunchPlan, rank: int) -> ProbeRequest:
    return ProbeRequest("clean", plan, rank, probe_directory(plan))


def probe_directory(plan: LaunchPlan) -> str:
    """Beside the run directories: the same disk, the same rights."""
    run = Path(plan.run_dir)
    return str(run.with_name(f".{run.name}"))


def spread(ports: Sequence[int]) -> tuple[int, ...]:
    """At most MAX_PORTS_TRIED of them, evenly, both ends among them."""
    if len(ports) <= MAX_PORTS_TRIED:
        return tuple(ports)
    return tuple(ports[step * (len(ports) - 1) // (MAX_PORTS_TRIED - 1)] for step in range(MAX_PORTS_TRIED))
