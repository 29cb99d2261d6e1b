"""What a diagnosis is concluded from, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fsdpctl.contract.node_report import Activity
from fsdpctl.contract.records import Resources
from fsdpctl.explain.categories import Category
from fsdpctl.explain.run.failed_ranks import Failed
from fsdpctl.logs.ranges import fold_ranks
from fsdpctl.node.agent.exit_status import describe_code
from fsdpctl.supervise.hang import Hang, PlacedRank

_OF_MEMORY = (Category.OOM_KILLER, Category.RAM_OOM, Category.SIGNAL)


def describe_evidence(first: Failed, resources: Resources | None, hang: Hang | None) -> tuple[str, ...]:
    """Return what is known of the rank that failed first, one line each."""
    if hang is not None:
        return _describe_others(hang.others)
    rank, match = first.evidence, first.kind.match
    found = []
    if rank.error is not None and rank.error.kinds:
        found.append(f"the error record of rank {rank.rank}")
    elif match is not None:
        found.append(f"{rank.log.name}: {match.line}")
    if rank.is_finished:
        found.append(f"rank {rank.rank} recorded that its script had ended without an error")
    if rank.exit_code is not None:
        found.append(f"torchrun saw rank {rank.rank} end with {describe_code(rank.exit_code)}")
    return (*found, *describe_resources(resources, first.kind.category))


def memory_fields(resources: Resources | None) -> Mapping[str, str]:
    """Return the numbers of a node's memory that the text of a rule may name."""
    numbers = (("limit", resources.memory_limit), ("peak", resources.memory_peak)) if resources is not None else ()
    return {name: f"{size / 2**30:.1f} GiB" for name, size in numbers if size is not None}


def describe_resources(resources: Resources | None, category: Category) -> list[str]:
    """Return what the node had run out of; other runs of the host may have caused that, too."""
    if resources is None:
        return []
    found = []
    if resources.oom_kills:
        found.append(f"the kernel killed processes of the node's cgroup for memory: {resources.oom_kills}")
    elif resources.host_oom_kills and category in _OF_MEMORY:
        found.append(f"the kernel killed processes of the host for memory: {resources.host_oom_kills}")
    if resources.is_disk_full:
        found.append("the disk of the run is full")
    return found


def _describe_others(others: Sequence[PlacedRank]) -> tuple[str, ...]:
    """Return where the ranks waited that hung because of another one, those of one place together."""
    places: dict[str, list[int]] = {}
    for rank in others:
        what = "waited for others" if rank.report.activity is Activity.PEERS else "were"
        where = rank.report.where.rpartition("/site-packages/")[2]
        place = f"{what} at {where or 'a place that is not known'}"
        places.setdefault(place, []).append(rank.report.rank)
    return tuple(f"{fold_ranks(ranks)} {place}" for place, ranks in places.items())
