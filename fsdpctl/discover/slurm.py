"""Choose a partition of a Slurm cluster, and write it as a profile. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.backends.slurm.resources import SlurmNode, SlurmPartition
from fsdpctl.contract.findings import most_common
from fsdpctl.discover.profile_text import card_line, comment, count, joined, value
from fsdpctl.logs.ranges import fold_names
from fsdpctl.schema.types import format_duration


def choose_partition(partitions: Sequence[SlurmPartition]) -> SlurmPartition | None:
    """Return the one with most GPUs, of equals the default one, then the one with most nodes; None without nodes."""
    with_nodes = [partition for partition in partitions if partition.nodes]
    return max(with_nodes, key=lambda one: (_num_gpus(one), one.is_default, len(one.nodes)), default=None)


def describe_partition(partition: SlurmPartition) -> str:
    """Return what a partition has, in one line."""
    longest = format_duration(partition.max_time_s) if partition.max_time_s is not None else "any length"
    down = [node.name for node in partition.nodes if not node.is_up]
    kinds = " and ".join(f"{fold_names(nodes)}: {what}" for what, nodes in _kinds(partition.nodes).items())
    default = " (default)" if partition.is_default else ""
    text = f"partition {partition.name}{default}: {kinds or 'no nodes'}; jobs of {longest}"
    return f"{text}; not up: {fold_names(down)}" if down else text


def write_slurm(name: str, partition: SlurmPartition, others: Sequence[SlurmPartition], python: str) -> str:
    """Return the profile of a partition; the others are in its comments."""
    gpus = most_common([node.gpus for node in partition.nodes])
    kinds = _kinds(partition.nodes)
    nodes = count(len(partition.nodes), "node")
    lines = [
        f"# Partition {partition.name} of this Slurm cluster, {nodes}, written by asking `scontrol`.",
        f"# Its nodes were not looked at: `fsdpctl doctor {name}` does that.",
        f"name: {value(name)}",
        "",
        "backend:",
        "  kind: slurm",
        f"  partition: {value(partition.name)}",
        *(f"  # partition: {value(one.name)}{comment(describe_partition(one))}" for one in others),
        *(f"  # {fold_names(names)}: {what}" for what, names in (kinds.items() if len(kinds) > 1 else ())),
        *_constraint_lines(partition),
        *_time_lines(partition),
        *_gres_lines(partition, gpus),
        "  # account: my-project       # sbatch --account: the account that is charged",
        "  # exclusive: true           # whole nodes: no other job shares the links",
        '  # mem: "0"                  # sbatch --mem, in quotes; "0" is all memory of the node',
        "",
        f"gpus_per_node: {gpus}",
        card_line(None),
        "",
        "network:",
        "  interface: auto             # the interface that routes to the head",
        "  # ib_hcas: [mlx5_0]         # InfiniBand adapters, without those for storage: `ibstat -l` on a node",
        "  # gbps: 100                 # of all adapters of a node in Gbit/s; `bench nccl` compares with it",
        "",
        "# runs_root: /shared/me/runs    # on a disk that all nodes and this machine share; unset: $FSDPCTL_HOME/runs",
        f"python: {value(python)}  # CHANGE if the nodes do not have it; or `venv`",
    ]
    return joined(lines)


def _num_gpus(partition: SlurmPartition) -> int:
    return sum(node.gpus for node in partition.nodes)


def _kinds(nodes: Sequence[SlurmNode]) -> dict[str, list[str]]:
    """Return the kinds of nodes as text, with the names of each."""
    kinds: dict[str, list[str]] = {}
    for node in nodes:
        parts = [node.gres or "no GPU", f"{node.cpus} CPUs", f"{node.memory_mib / 1024:.0f} GiB"]
        kinds.setdefault(", ".join([*parts, *([node.features] if node.features else [])]), []).append(node.name)
    return kinds


def _constraint_lines(partition: SlurmPartition) -> list[str]:
    if len(_kinds(partition.nodes)) < 2:
        return []
    features = sorted({one for node in partition.nodes for one in node.features.split(",") if one})
    return [f"  # constraint: {value(features[0])}{comment('features: ' + ', '.join(features))}"] if features else []


def _time_lines(partition: SlurmPartition) -> list[str]:
    if partition.max_time_s is None or partition.max_time_s < 1:
        return ["  # time: 4h                  # longest allocation; a longer job saves and is requeued by itself"]
    longest = format_duration(partition.max_time_s)
    return [f"  time: {longest}{comment('longest allocation here; a longer job saves and is requeued by itself')}"]


def _gres_lines(partition: SlurmPartition, gpus: int) -> list[str]:
    if not gpus:
        return []
    gres = next(node.gres for node in partition.nodes if node.gpus == gpus)
    return [f"  # gres: {value(gres)}{comment('if --gpus-per-node is not enough')}"]
