"""One rank of `fsdpctl bench nccl`: `python -m fsdpctl.benchmarks.network SIZE...`, in bytes; none: the usual ones."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

from fsdpctl.benchmarks.network.collectives import measure_collectives
from fsdpctl.benchmarks.network.links import read_link
from fsdpctl.benchmarks.network.pairs import PairRounds
from fsdpctl.benchmarks.ranks import Ranks
from fsdpctl.contract import Env
from fsdpctl.contract.benchmarks import CollectiveSpeed, LinkRate, NetworkReport
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import NodePaths

MIB = 2**20
MAX_SIZES = {"cuda": 1024 * MIB, "cpu": 16 * MIB}


def main(sizes: Sequence[int]) -> None:
    ranks = Ranks()
    report = _begin(ranks)
    for measured in measure_collectives(ranks, sizes or usual_sizes(ranks.device.type)) if ranks.size > 1 else ():
        if isinstance(measured, CollectiveSpeed):
            report = replace(report, collectives=(*report.collectives, measured))
        else:
            report = replace(report, skipped=(*report.skipped, measured))
        _write(ranks, report)
    if ranks.num_members > 1:
        rounds = PairRounds(ranks)
        while report.verdict is None:
            verdict = rounds.measure_next()
            report = replace(report, pairs=rounds.speeds, rounds=rounds.rounds, verdict=verdict)
            _write(ranks, report)
    ranks.barrier()
    ranks.close()


def usual_sizes(device: str) -> list[int]:
    """Return 1, 2, 4, ... MiB."""
    return [MIB * 2**power for power in range((MAX_SIZES[device] // MIB).bit_length())]


def _begin(ranks: Ranks) -> NetworkReport:
    node_rank = ranks.rank // ranks.per_node
    link = read_link(node_rank, ranks.device.type, os.environ.get(Env.IFNAME, ""), os.environ)
    links = cast("list[LinkRate]", ranks.gather_objects(link))
    return NetworkReport(
        device="cuda" if ranks.device.type == "cuda" else "cpu",
        world_size=ranks.size,
        nodes=ranks.num_nodes,
        unit="node" if ranks.num_nodes > 1 else "rank",
        links=tuple(links[:: ranks.per_node]),
    )


def _write(ranks: Ranks, report: NetworkReport) -> None:
    if ranks.rank == 0:
        write_json(NodePaths(Path(os.environ[Env.NODE_DIR])).benchmark, report)


if __name__ == "__main__":
    main([int(size) for size in sys.argv[1:]])
