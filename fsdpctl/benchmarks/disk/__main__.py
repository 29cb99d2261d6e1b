"""One rank of `fsdpctl bench io`: `python -m fsdpctl.benchmarks.disk BYTES`, which the ranks of a node write."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import cast

from fsdpctl.benchmarks.disk.files import Measured, read_file, write_file
from fsdpctl.benchmarks.ranks import Ranks
from fsdpctl.contract import Env
from fsdpctl.contract.benchmarks import DiskReport, NodeDiskSpeed, ReadWay
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.host import FileSystem
from fsdpctl.contract.paths import DIR_MODE, NodePaths, RunPaths
from fsdpctl.node.os.filesystems import IN_MEMORY, find_filesystem

RESERVE = 1.2
"""How much more space must be free than is written: a full disk would harm all other runs there."""


def main(size_of_node: int) -> None:
    ranks = Ranks(on_gpus=False)
    size = max(1, size_of_node // ranks.per_node)
    directory = RunPaths.of(os.environ[Env.RUN_DIR]).benchmark_files
    is_shared = os.environ[Env.SHARED_DISK] != "0" and ranks.num_nodes > 1
    directory.mkdir(mode=DIR_MODE, exist_ok=True)
    _check_space(directory, size * (ranks.size if is_shared else ranks.per_node))
    filesystem = find_filesystem(directory)
    path = directory / str(ranks.rank)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        if not is_shared:
            path.unlink()  # nothing is left, however this rank ends
        ranks.barrier()
        written = write_file(descriptor, size)
        ranks.barrier()
        # On a shared disk, a node reads what another one has written: that is not in its own page cache.
        source = (ranks.rank + ranks.per_node) % ranks.size if is_shared else ranks.rank
        read, way = read_file(directory / str(source) if is_shared else Path(f"/proc/self/fd/{descriptor}"))
        ranks.barrier()
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
        with suppress(OSError):  # not empty: others will remove it
            directory.rmdir()
    if filesystem.kind in IN_MEMORY:
        way = ReadWay.MEMORY
    _report(ranks, size, written, read, filesystem, way, source // ranks.per_node)
    ranks.close()


def _check_space(directory: Path, needed: int) -> None:
    space = os.statvfs(directory)
    free = space.f_bavail * space.f_frsize
    if free < RESERVE * needed:
        text = f"{needed / 2**30:.1f} GiB would be written, {free / 2**30:.1f} GiB are free: `--size` takes less"
        raise OSError(errno.ENOSPC, text, str(directory))


def _report(
    ranks: Ranks, size: int, written: Measured, read: Measured, filesystem: FileSystem, way: ReadWay, source: int
) -> None:
    parts = cast(
        "list[tuple[Measured, Measured, FileSystem, ReadWay, int]]",
        ranks.gather_objects((written, read, filesystem, way, source)),
    )
    nodes = []
    for first in range(0, ranks.size, ranks.per_node):
        of_node = parts[first : first + ranks.per_node]
        nodes.append(
            NodeDiskSpeed(
                node_rank=first // ranks.per_node,
                filesystem=of_node[0][2],
                write_bytes_per_s=together([part[0] for part in of_node]),
                read_bytes_per_s=together([part[1] for part in of_node]),
                read_way=max((part[3] for part in of_node), key=list(ReadWay).index),
                read_from=of_node[0][4],
            )
        )
    report = DiskReport(
        bytes_per_rank=size,
        ranks_per_node=ranks.per_node,
        nodes=tuple(nodes),
        write_bytes_per_s=together([part[0] for part in parts]),
        read_bytes_per_s=together([part[1] for part in parts]),
    )
    if ranks.rank == 0:
        write_json(NodePaths(Path(os.environ[Env.NODE_DIR])).benchmark, report)


def together(parts: list[Measured]) -> float:
    """Return the bytes/s of several ranks at once: until the last one was done."""
    return sum(part.num_bytes for part in parts) / max(max(part.seconds for part in parts), 1e-9)


if __name__ == "__main__":
    main(int(sys.argv[1]))
