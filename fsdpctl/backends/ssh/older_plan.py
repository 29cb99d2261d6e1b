"""Plans of schema 1: how hosts are reached was then read from the run's `profile.yaml`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan, PlannedNode, SshPlan
from fsdpctl.schema.types import parse_duration
from fsdpctl.schema.yaml_tree import parse_mapping


def with_hosts(run: RunPaths, plan: LaunchPlan) -> LaunchPlan:
    """Return the plan, with hosts from the profile if it has none. Raise OSError."""
    if plan.ssh is not None:
        return plan
    profile = parse_mapping(read_bytes(run.profile).decode(), str(run.profile), "profile").tree
    backend = profile["backend"]
    nodes, spares = (tuple(map(_node, range(1024), profile.get(key, ()))) for key in ("nodes", "spares"))
    ssh = SshPlan(backend.get("user"), parse_duration(backend.get("connect_timeout", "10s")), nodes, spares)
    return replace(plan, ssh=ssh)


def _node(rank: int, node: Mapping[str, Any]) -> PlannedNode:
    return PlannedNode(rank, node["id"], node["address"], node.get("port", 22), node.get("env", {}))
