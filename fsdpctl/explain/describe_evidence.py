"""What a diagnosis is concluded from, as text."""

from __future__ import annotations

from fsdpctl.contract.records import Resources
from fsdpctl.explain.failed_ranks import Failed
from fsdpctl.node.agent.exit_status import describe_code


def describe_evidence(first: Failed, resources: Resources | None) -> tuple[str, ...]:
    """Return what is known of the rank that failed first, one line each."""
    rank, match = first.evidence, first.kind.match
    found = []
    if rank.error is not None and rank.error.kinds:
        found.append(f"the error record of rank {rank.rank}")
    elif match is not None:
        found.append(f"{rank.log.name}: {match.line}")
    if rank.exit_code is not None:
        found.append(f"torchrun saw rank {rank.rank} end with {describe_code(rank.exit_code)}")
    return (*found, *(_describe_resources(resources) if resources is not None else ()))


def _describe_resources(resources: Resources) -> list[str]:
    found = []
    if resources.oom_kills:
        numbers = (("limit", resources.memory_limit), ("peak", resources.memory_peak))
        sizes = "".join(f", {name} {size / 2**30:.1f} GiB" for name, size in numbers if size is not None)
        found.append(f"the kernel killed processes of the node's cgroup for memory: {resources.oom_kills}{sizes}")
    elif resources.host_oom_kills:
        found.append(f"the kernel killed processes of the host for memory: {resources.host_oom_kills}")
    if resources.is_disk_full:
        found.append("the disk of the run is full")
    return found
