from __future__ import annotations

import os
from pathlib import Path

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.agent.heartbeats import Heartbeat, PeerWatch


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def beat(attempt: AttemptPaths, rank: int, stamp: float) -> None:
    node = attempt.node(rank)
    node.root.mkdir(exist_ok=True)
    node.heartbeat.touch()
    os.utime(node.heartbeat, (stamp, stamp))


def look(watch: PeerWatch, clock: Clock, seconds: int) -> tuple[str, str] | None:
    """Let time pass as an agent does; return what is found in the end."""
    found = None
    for _ in range(seconds):
        clock.now += 1
        found = watch.find_lost()
    return (found.cause, found.reason) if found is not None else None


def test_a_heartbeat_counts_by_its_changes_not_by_its_time_stamp(tmp_path: Path) -> None:
    attempt, clock = AttemptPaths(tmp_path), Clock()
    watch = PeerWatch(attempt, [1], timeout_s=10, clock=clock)
    for second in range(30):
        beat(attempt, 1, stamp=5.0 + second)  # a clock that is decades wrong
        clock.now += 1
        assert watch.find_lost() is None
    assert look(watch, clock, 10) is None
    assert look(watch, clock, 1) == ("lost", "node 1: lost, no heartbeat for 10 s")


def test_a_suspended_machine_loses_no_peer(tmp_path: Path) -> None:
    attempt, clock = AttemptPaths(tmp_path), Clock()
    watch = PeerWatch(attempt, [1], timeout_s=10, clock=clock)
    beat(attempt, 1, stamp=1.0)
    assert look(watch, clock, 5) is None
    clock.now += 20
    assert watch.find_lost() is None, "the peer had no time to beat, either"
    assert look(watch, clock, 10) is None
    assert look(watch, clock, 1) == ("lost", "node 1: lost, no heartbeat for 10 s")


def test_a_peer_that_never_started_is_lost_too(tmp_path: Path) -> None:
    clock = Clock()
    watch = PeerWatch(AttemptPaths(tmp_path), [1], timeout_s=10, clock=clock)
    assert look(watch, clock, 10) is None
    assert look(watch, clock, 2) == ("lost", "node 1: lost, no heartbeat for 10 s")


def test_a_clean_end_is_no_loss_and_a_failure_gives_its_reason(tmp_path: Path) -> None:
    attempt, clock = AttemptPaths(tmp_path), Clock()
    watch = PeerWatch(attempt, [1, 2, 3], timeout_s=10, clock=clock)
    for rank in (1, 2, 3):
        beat(attempt, rank, 1.0)
    write_json(attempt.node(1).end, NodeEnd(0, "finished"))
    write_json(attempt.node(3).end, NodeEnd(75, "stopped"))
    assert watch.find_lost() is None
    write_json(attempt.node(2).end, NodeEnd(77, "no GPU"))
    assert watch.find_lost() == ControlFile("fault", "node 2: no GPU")
    clock.now += 100
    assert PeerWatch(attempt, [1, 3], 10, clock).find_lost() is None


def test_a_heartbeat_is_touched_once_a_period(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "heartbeat", every_s=3600)
    heartbeat.beat()
    os.utime(tmp_path / "heartbeat", (1, 1))
    heartbeat.beat()
    assert (tmp_path / "heartbeat").stat().st_mtime == 1
