"""The progress of a rank, by which its agent distinguishes a rank that waits for data from those that wait for it."""

from __future__ import annotations

import time
from pathlib import Path

from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.rank_progress import Section, read_rank_progress
from tests.train import faults
from tests.train.ranks import Config, Ranks, start

Progress = list[tuple[Section, int]]


def wait_for_progress(ranks: Ranks, node: NodePaths, expected: Progress) -> None:
    deadline = time.monotonic() + 60
    while (found := progress_of(node)) != expected:
        assert time.monotonic() < deadline, (found, ranks.log())
        time.sleep(0.01)


def progress_of(node: NodePaths) -> Progress:
    found = [read_rank_progress(node.rank_progress(rank)) for rank in (0, 1)]
    return [(progress.section, progress.step) for progress in found if progress]


def test_a_rank_that_waits_for_data_differs_from_its_peers(tmp_path: Path, config: Config) -> None:
    env, data = {"FSDPCTL_NODE_DIR": str(tmp_path)}, tmp_path / "data"
    config["mesh"] = {"strategy": "NO_SHARD"}
    late = {"fault": faults.first_batch_comes_late, "fault_args": (1, str(data))}
    ranks = start(tmp_path / "run", config, procs_per_node=2, env=env, **late)
    node = NodePaths(tmp_path)
    try:
        wait_for_progress(ranks, node, [(Section.STEP, 0), (Section.DATA, 0)])
    finally:
        data.touch()
    assert ranks.wait() == [0, 0], ranks.log()
    assert progress_of(node) == [(Section.END, 12)] * 2
