"""What `bench io` prints: a table of nodes, and sentences about those that differ. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from fsdpctl.cli.network_text import format_speed
from fsdpctl.contract.benchmarks import DiskReport, NodeDiskSpeed, ReadWay
from fsdpctl.contract.findings import most_common
from fsdpctl.contract.host import FileSystem
from fsdpctl.logs.ranges import fold_names
from fsdpctl.node.os.filesystems import has_server

SLOW_SHARE = 0.5
"""Of the median of all nodes: they have written and read at the same time."""
LEAST_S = 0.2
"""A file that is written or read in less time measures chance."""

HEADER = ("NODE", "WRITE", "READ", "READ FROM", "FILE SYSTEM")
WAYS = {
    ReadWay.DIRECT: "direct",
    ReadWay.DROPPED: "cache dropped",
    ReadWay.CACHED: "maybe cached",
    ReadWay.MEMORY: "memory",
}


def node_rows(report: DiskReport, names: Sequence[str]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for node in report.nodes:
        source = "" if node.read_from == node.node_rank else f" of {names[node.read_from]}"
        rows.append(
            (
                names[node.node_rank],
                format_speed(node.write_bytes_per_s),
                format_speed(node.read_bytes_per_s),
                f"{WAYS[node.read_way]}{source}",
                f"{node.filesystem.kind} at {node.filesystem.mount} ({node.filesystem.source})",
            )
        )
    return rows


def summary_rows(report: DiskReport, names: Sequence[str], checkpoint: tuple[str, int] | None) -> list[tuple[str, str]]:
    """Return the sum of all nodes, and sentences. `checkpoint`: the name of a job and the bytes of its checkpoint."""
    write, read = report.write_bytes_per_s, report.read_bytes_per_s
    rows = [("all nodes", f"write {format_speed(write)}, read {format_speed(read)}, all at once")]
    if checkpoint is not None:
        job, size = checkpoint
        text = f"{size / 2**30:.1f} GiB of {job}: {size / write:,.0f} s to write, {size / read:,.0f} s to read"
        rows.append(("checkpoint", text))
    found = [*sentences(report, names), *cache_sentences(report)]
    return rows + [("" if number else "result", text) for number, text in enumerate(found)]


def sentences(report: DiskReport, names: Sequence[str]) -> list[str]:
    """Return which nodes differ from the others; that none does, if so."""
    found = []
    if others := find_other_filesystems(report):
        usual = usual_filesystem(report)
        nodes = fold_names(names[node.node_rank] for node in others)
        found.append(
            f"{nodes}: the run root is on {others[0].filesystem.kind} ({others[0].filesystem.source}) there, on"
            f" {usual.kind} ({usual.source}) elsewhere."
        )
    for what, slow in (("write", find_slow_writers(report)), ("read", find_slow_readers(report))):
        for node, speed, usual_speed in slow:
            found.append(
                f"{names[node]} is slow to {what}: {format_speed(speed)}, the median is {format_speed(usual_speed)}."
            )
    return found or ["No node is slower than the others, and all have the same file system."]


def cache_sentences(report: DiskReport) -> list[str]:
    """Return what else than a disk may have answered."""
    ways = {node.read_way for node in report.nodes}
    found = []
    if ReadWay.MEMORY in ways:
        found.append("This file system is in memory: nothing of it is on a disk.")
    if ReadWay.CACHED in ways:
        found.append("The page cache may have answered: this file system neither reads directly nor drops its pages.")
    if any(has_server(node.filesystem) for node in report.nodes):
        found.append("The cache of the file server may have answered the reads.")
    return found


def differs(report: DiskReport) -> bool:
    return bool(find_other_filesystems(report) or find_slow_writers(report) or find_slow_readers(report))


def find_other_filesystems(report: DiskReport) -> list[NodeDiskSpeed]:
    usual = _identity(report, usual_filesystem(report))
    return [node for node in report.nodes if _identity(report, node.filesystem) != usual]


def usual_filesystem(report: DiskReport) -> FileSystem:
    identities = [_identity(report, node.filesystem) for node in report.nodes]
    return report.nodes[identities.index(most_common(identities))].filesystem


def _identity(report: DiskReport, filesystem: FileSystem) -> tuple[str, str]:
    """Return what must be the same on all nodes; disks of their own may have any name."""
    is_shared = any(node.read_from != node.node_rank for node in report.nodes)
    return filesystem.kind, filesystem.source if is_shared else ""


def find_slow_writers(report: DiskReport) -> list[tuple[int, float, float]]:
    return _find_slow(report, [(node.node_rank, node.write_bytes_per_s) for node in report.nodes])


def find_slow_readers(report: DiskReport) -> list[tuple[int, float, float]]:
    return _find_slow(report, [(node.node_rank, node.read_bytes_per_s) for node in report.nodes])


def _find_slow(report: DiskReport, speeds: Sequence[tuple[int, float]]) -> list[tuple[int, float, float]]:
    num_bytes = report.bytes_per_rank * report.ranks_per_node
    usual = statistics.median_high([speed for _, speed in speeds])
    slow = [(node, speed, usual) for node, speed in speeds if speed < SLOW_SHARE * usual]
    return [(node, speed, usual) for node, speed, usual in slow if num_bytes > LEAST_S * speed]
