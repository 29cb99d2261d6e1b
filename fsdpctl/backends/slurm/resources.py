"""The partitions of this Slurm and what their nodes have, from `scontrol show partition` and `show node`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from fsdpctl.backends.slurm.job.partition import parse_time
from fsdpctl.backends.slurm.job.scontrol import ask
from fsdpctl.backends.slurm.profile_keys import count_gpus

_PAIR = re.compile(r"(\w+)=(\S*)")
_DOWN = ("DOWN", "DRAIN", "FAIL", "NOT_RESPONDING", "FUTURE", "POWERED_DOWN")


@dataclass(frozen=True)
class SlurmNode:
    """What Slurm knows of one node."""

    name: str
    gpus: int
    gres: str  # as configured, like gpu:h100:8
    cpus: int
    memory_mib: int
    features: str
    partitions: tuple[str, ...]
    is_up: bool


@dataclass(frozen=True)
class SlurmPartition:
    """One partition, with its nodes."""

    name: str
    is_default: bool
    max_time_s: int | None
    nodes: tuple[SlurmNode, ...]


def read_resources(env: Mapping[str, str] | None = None) -> list[SlurmPartition]:
    """Ask the controller for all partitions. Raise SlurmError."""
    partitions = ask(["scontrol", "--oneliner", "show", "partition"], env)
    return parse_resources(partitions, ask(["scontrol", "--oneliner", "show", "node"], env))


def parse_resources(partitions: str, nodes: str) -> list[SlurmPartition]:
    """Parse what both print, one line for each. Pure."""
    known = [_node(_keys(line)) for line in nodes.splitlines() if line.startswith("NodeName=")]
    found = [_keys(line) for line in partitions.splitlines() if line.startswith("PartitionName=")]
    return [
        SlurmPartition(
            name=keys["PartitionName"],
            is_default=keys.get("Default") == "YES",
            max_time_s=parse_time(keys.get("MaxTime", "")),
            nodes=tuple(node for node in known if keys["PartitionName"] in node.partitions),
        )
        for keys in found
    ]


def _keys(line: str) -> dict[str, str]:
    """Return the first value of each key: free text, as of a reason, comes last and may contain anything."""
    return dict(reversed(_PAIR.findall(line)))


def _node(keys: Mapping[str, str]) -> SlurmNode:
    gres = keys.get("Gres", "")
    return SlurmNode(
        name=keys["NodeName"],
        gpus=count_gpus(gres) or 0,
        gres="" if gres == "(null)" else re.sub(r"\([^)]*\)", "", gres),
        cpus=int(keys.get("CPUTot", "0")),
        memory_mib=int(keys.get("RealMemory", "0")),
        features=keys.get("AvailableFeatures", "").replace("(null)", ""),
        partitions=tuple(keys.get("Partitions", "").split(",")),
        is_up=not any(state in keys.get("State", "") for state in _DOWN),
    )
