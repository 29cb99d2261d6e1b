"""The requests to each node. Pure."""

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
"""Firewall rules cover ranges: both ends and some ports between are enough."""


def plan_nodes(profile: ClusterProfile, host: SubmitHost, num_nodes: int | None = None) -> LaunchPlan:
    """Return the plan of a job on all nodes of the profile and its spares: doctor checks what a run would use."""
    nodes = (*profile.nodes, *profile.spares)
    all_nodes = profile.model_copy(update={"nodes": nodes, "spares": ()})
    num_all = len(nodes) or get_backend(profile.backend.kind).doctor_nodes
    job = JobSpec(name="doctor", nodes=num_nodes or num_all, entrypoint=Entrypoint(script="doctor"))
    return build_plan(all_nodes, job, host)


def local_request(plan: LaunchPlan, rank: int) -> ProbeRequest:
    return ProbeRequest("local", plan, rank, probe_directory(plan))


def connectivity_request(
    plan: LaunchPlan, rank: int, head: LocalReport | None, partners: Sequence[int]
) -> ProbeRequest:
    """Return the request to connect to the head; without the head's address, only to compare the disk."""
    request = ProbeRequest("connectivity", plan, rank, probe_directory(plan), partners=tuple(partners))
    if head is None or head.head is None:
        return request
    return replace(request, head=plan.head.address or head.head, ports=spread(head.free_ports))


def clean_request(plan: LaunchPlan, rank: int) -> ProbeRequest:
    return ProbeRequest("clean", plan, rank, probe_directory(plan))


def probe_directory(plan: LaunchPlan) -> str:
    """Return a directory beside the run directories: on the same disk, with the same permissions."""
    run = Path(plan.run_dir)
    return str(run.with_name(f".{run.name}"))


def spread(ports: Sequence[int]) -> tuple[int, ...]:
    """Return at most MAX_PORTS_TRIED of the ports, evenly spaced, with the first and the last."""
    if len(ports) <= MAX_PORTS_TRIED:
        return tuple(ports)
    return tuple(ports[step * (len(ports) - 1) // (MAX_PORTS_TRIED - 1)] for step in range(MAX_PORTS_TRIED))
