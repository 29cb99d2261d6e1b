"""A rank that is slow is distinguished from those that wait for it in every step."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.train.ranks import Config, Ranks, metrics, start
from tests.train.single_rank import SingleRank
from train.metrics.stragglers import PATIENCE, StragglerDetector, find_slow


@pytest.mark.parametrize(
    ("seconds", "slow"),
    [
        ([1.0], {}),
        ([0.0, 0.0], {}),
        ([1.0, 1.9], {}),
        ([1.0, 2.5], {1: 2.5}),
        ([3.0, 1.0, 1.1, 0.9], {0: 3.0}),
        ([4.0, 4.0, 1.0, 1.0, 1.0], {0: 4.0, 1: 4.0}),
    ],
)
def test_slow_is_what_takes_a_multiple_of_the_median(seconds: list[float], slow: dict[int, float]) -> None:
    assert find_slow(seconds, 2.0) == slow


class ThreeRanks(SingleRank):
    """Rank 1 takes as long as the test sets."""

    def __init__(self) -> None:
        super().__init__()
        self.members = range(3)
        self.seconds = [1.0, 1.0, 1.0]

    def gather(self, value: Any) -> list[Any]:
        return list(self.seconds) if isinstance(value, float) else [f"host-{rank}" for rank in range(3)]


def test_only_what_lasts_is_logged_and_only_once(caplog: pytest.LogCaptureFixture) -> None:
    world = ThreeRanks()
    stragglers = StragglerDetector(world, every=10)

    def steps(count: int, factor: float) -> None:
        world.seconds[1] = factor
        for _ in range(count):
            stragglers.watch(10, [])
            stragglers.watch(11, [])

    for _ in range(5):  # a hiccup now and then
        steps(PATIENCE - 1, 9.0)
        steps(1, 1.0)
    assert not caplog.records and not stragglers.slow
    steps(2 * PATIENCE, 3.0)
    assert stragglers.slow == {1: "host-1"}
    assert caplog.messages == ["rank 1 on host-1 is slow: its own work takes 3.0 times the median"]
    steps(PATIENCE - 1, 1.0)
    assert stragglers.slow
    steps(1, 1.0)
    assert not stragglers.slow
    assert caplog.messages[1:] == ["rank 1 on host-1 is no longer slow"]


@contextmanager
def slowed(pid: int) -> Iterator[None]:
    """Let a process run for a quarter of the time."""
    over = threading.Event()

    def stop_and_go() -> None:
        while not over.wait(0.004):
            os.kill(pid, signal.SIGSTOP)
            over.wait(0.012)
            os.kill(pid, signal.SIGCONT)

    thread = threading.Thread(target=stop_and_go)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def share_one_core(ranks: Ranks) -> None:
    """Pin both to one core, so that other load of the machine affects both alike."""
    core = {min(os.sched_getaffinity(0))}
    for process in ranks.processes:
        assert process.pid is not None
        os.sched_setaffinity(process.pid, core)


def test_a_rank_that_is_slowed_from_outside_is_named(tmp_path: Path, config: Config) -> None:
    config.update(steps=100_000, log_every=10, checkpoint={"every_steps": 100_000})
    config["model"]["vocab_size"] = 2048  # a head whose time can be measured
    ranks = start(tmp_path, config, procs_per_node=2)
    share_one_core(ranks)
    ranks.wait_for_step(10 * 2 * PATIENCE)
    assert "slow" not in ranks.log()
    pid = ranks.processes[1].pid
    assert pid is not None
    with slowed(pid):
        ranks.wait_for_log(rf"rank 1 on {socket.gethostname()} is slow: its own work takes \d+\.\d times the median")
    seen = len(metrics(tmp_path))
    ranks.wait_for_step(seen + 1)
    assert metrics(tmp_path)[seen]["slow_ranks"] == {"1": socket.gethostname()}
    ranks.signal(0, signal.SIGTERM)
    assert ranks.wait() == [75, 75], ranks.log()
    assert "rank 0 on" not in ranks.log()
