"""What a rank tells the agent of its node, so that one that waits for data is told from those that wait for it."""

from __future__ import annotations

import time
from pathlib import Path

from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.rank_progress import Section, read_rank_progress
from tests.train import faults
from tests.train.ranks import Config, Ranks, start

Pulses = list[tuple[Section, int]]


def wait_for_pulses(ranks: Ranks, node: NodePaths, expected: Pulses) -> None:
    deadline = time.monotonic() + 60
    while (found := pulses(node)) != expected:
        assert time.monotonic() < deadline, (found, ranks.log())
        time.sleep(0.01)


def pulses(node: NodePaths) -> Pulses:
    found = [read_rank_progress(node.rank_progress(rank)) for rank in (0, 1)]
    return [(progress.section, progress.step) for progress in found if progress]


def test_a_rank_that_waits_for_data_is_told_from_its_peers(tmp_path: Path, config: Config) -> None:
    env, data = {"FSDPCTL_NODE_DIR": str(tmp_path)}, tmp_path / "data"
    config["mesh"] = {"strategy": "NO_SHARD"}
    late = {"fault": faults.first_batch_comes_late, "fault_args": (1, str(data))}
    ranks = start(tmp_path / "run", config, procs_per_node=2, env=env, **late)
    node = NodePaths(tmp_path)
    try:
        wait_for_pulses(ranks, node, [(Section.STEP, 0), (Section.DATA, 0)])
    finally:
        data.touch()
    assert ranks.wait() == [0, 0], ranks.log()
    assert pulses(node) == [(Section.END, 12)] * 2
