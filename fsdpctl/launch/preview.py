"""Preview a LaunchPlan for `submit --dry-run`, by the same functions that run it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from fsdpctl.backends.table import get_backend
from fsdpctl.commands.environment import node_env
from fsdpctl.commands.torchrun import torchrun_argv
from fsdpctl.contract.codec import encode
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.schema.types import format_duration

T = TypeVar("T")
OPEN_HEAD, OPEN_PORT = "<head>", "<port>"


@dataclass(frozen=True)
class NodePreview:
    """The command of one node; only the head and the port may be placeholders."""

    node: str
    argv: list[str]
    env: dict[str, str]


def preview_nodes(plan: LaunchPlan) -> list[NodePreview]:
    """Return the torchrun command and environment of every node, for the first attempt."""
    interface = plan.interface if plan.interface != "auto" else None
    head = plan.head.address or OPEN_HEAD
    contexts = [NodeContext(node.rank, 1, head, OPEN_PORT, interface) for node in plan.nodes]
    return [
        NodePreview(node.id, torchrun_argv(plan, context), node_env(plan, context))
        for node, context in zip(plan.nodes, contexts, strict=True)
    ]


def preview_json(plan: LaunchPlan) -> dict[str, Any]:
    """Return the whole plan and its commands, as JSON values."""
    commands = {"plan": encode(plan), "nodes": [encode(node) for node in preview_nodes(plan)]}
    return {**commands, **get_backend(plan.backend).preview(plan)}


def preview_text(plan: LaunchPlan) -> str:
    """Return the whole plan and its commands as text. What is the same on every node is shown once."""
    blocks = [_summary(plan)]
    for name, given in get_backend(plan.backend).preview(plan).items():
        text = given if isinstance(given, str) else f"$ {shlex.join(given)}"
        blocks.append(f"{name.replace('_', ' ')}\n{_indented(text)}")
    previews = preview_nodes(plan)
    common = set.intersection(*(set(node.env.items()) for node in previews))
    if len(previews) > 1:
        blocks.append("environment of every node\n" + _env_lines(sorted(common)))
    for rank, node in enumerate(previews):
        own = sorted(node.env.items() if len(previews) == 1 else node.env.items() - common)
        blocks.append(f"node {rank} ({node.node})\n{_env_lines(own)}\n  $ {shlex.join(node.argv)}")
    return "\n\n".join(blocks)


def _indented(text: str) -> str:
    return "".join(f"  {line}\n" for line in text.splitlines()).rstrip()


def _summary(plan: LaunchPlan) -> str:
    rows = [
        ("run", f"{plan.run_id}, in {plan.run_dir}"),
        ("ranks", f"{_count(len(plan.nodes), 'node')} x {plan.procs_per_node} = {plan.world_size}, {_transport(plan)}"),
        *_mesh_rows(plan),
        ("head", f"{plan.head.address or OPEN_HEAD}: {plan.head.rule}"),
        ("port", f"{OPEN_PORT}: the first free one of {plan.ports.first}-{plan.ports.last} on the head"),
        *([("interface", "on each node, the one that routes to <head>")] if plan.interface == "auto" else []),
        ("time", f"limit {_time_limit(plan)}, grace {format_duration(plan.grace_s)}, restarts {plan.restarts}"),
        *([("secrets", f"from this shell: {', '.join(plan.pass_env)}")] if plan.pass_env else []),
        *[("setup", line) for line in plan.setup],
    ]
    return "\n".join(f"{key:<11}{value}" for key, value in rows)


def _mesh_rows(plan: LaunchPlan) -> list[tuple[str, str]]:
    mesh = plan.mesh
    if mesh is None:
        return []
    return [
        ("mesh", f"{mesh.replicate} x {mesh.shard} (replicate x shard), {mesh.strategy}"),
        ("", f"shard: {_groups(mesh.shard_groups())}"),
        ("", f"replicate: {_groups(mesh.replicate_groups())}"),
    ]


def _groups(groups: list[range]) -> str:
    """Return rank groups as text, shortened in the middle if there are many: `[0 1] [2 3] ... [126 127]`."""
    return _few(groups, 6, 3, lambda group: f"[{_few(group, 16, 8, str)}]")


def _few(items: Sequence[T], most: int, first: int, write: Callable[[T], str]) -> str:
    """Return all items as text, or the first ones and the last; only those are converted."""
    if len(items) <= most:
        return " ".join(map(write, items))
    return " ".join([*map(write, items[:first]), "...", write(items[-1])])


def _env_lines(items: list[tuple[str, str]]) -> str:
    return "\n".join(f"  {name}={shlex.quote(value)}" for name, value in items)


def _transport(plan: LaunchPlan) -> str:
    return "GPUs, NCCL" if plan.device == "cuda" else "no GPUs, gloo"


def _time_limit(plan: LaunchPlan) -> str:
    return format_duration(plan.time_limit_s) if plan.time_limit_s is not None else "none"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
