from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.rank_progress import RankProgress, RankProgressWriter, Section, read_rank_progress
from fsdpctl.node.agent.watchdog import Stall, Watchdog, blame, describe_waiting, limit_s
from fsdpctl.node.os.processes import Tag

WAITING = 'Thread 0x1:\n  File "x.py"\nCurrent thread 0x2:\n  File ".../torch/distributed/c10d.py", line 1 in wait'
BACKWARD = 'Current thread 0x2:\n  File ".../torch/autograd/graph.py", line 1 in _engine_run_backward'
BUSY = 'Thread 0x1:\n  File ".../torch/distributed/x.py"\nCurrent thread 0x2:\n  File "user.py", line 7 in tokenize'


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def stall(rank: int, section: Section = Section.STEP, age_s: float = 12.0) -> Stall:
    return Stall(rank, RankProgress(section, 7, 0.0, 0.5), age_s)


def test_rank_progress_records_section_step_and_start_time(tmp_path: Path) -> None:
    clock = Clock()
    writer = RankProgressWriter(tmp_path / "progress-3", clock)
    assert read_rank_progress(tmp_path / "progress-3") is None
    writer.mark(Section.EVALUATE, 123456)
    clock.now += 5
    writer.mark(Section.STEP, 7)
    assert read_rank_progress(tmp_path / "progress-3") == RankProgress(Section.STEP, 7, 1005.0, 0.0)
    assert len((tmp_path / "progress-3").read_bytes()) == 80


def test_slow_steps_are_measured_without_saves(tmp_path: Path) -> None:
    clock = Clock()
    writer = RankProgressWriter(tmp_path / "progress-0", clock)
    for step in range(100):
        if step == 50:
            writer.mark(Section.SAVE, step)
            clock.now += 600
        writer.step_begins()
        writer.mark(Section.STEP, step)
        clock.now += 2.0 if step == 10 else 0.1
    progress = read_rank_progress(tmp_path / "progress-0")
    assert progress is not None
    assert 0.09 < progress.slow_step_s < 2.1


@pytest.mark.parametrize(
    ("section", "slow_step_s", "limit"),
    [
        (Section.STEP, 0.05, 10.0),
        (Section.STEP, 20.0, 60.0),
        (Section.STEP, 0.0, 1800.0),  # the first step compiles
        (Section.START, 0.0, 1800.0),
        (Section.SAVE, 0.05, 1800.0),
        (Section.DATA, 0.05, 600.0),
        (Section.END, 0.05, float("inf")),
    ],
)
def test_each_section_has_its_limit(section: Section, slow_step_s: float, limit: float) -> None:
    assert limit_s(RankProgress(section, 1, 0.0, slow_step_s)) == limit


def look(watchdog: Watchdog, clock: Clock, seconds: float) -> list[int]:
    """Let time pass as an agent does, checking twice a second; return the ranks found in the end."""
    found: list[Stall] = []
    for _ in range(int(seconds * 2)):
        clock.now += 0.5
        found = watchdog.find_stalls()
    return [stall.rank for stall in found]


def test_a_rank_over_its_limit_is_found(tmp_path: Path) -> None:
    clock, paths = Clock(), NodePaths(tmp_path)
    watchdog = Watchdog(Tag("r"), paths, range(2, 4), clock)
    writers = {rank: RankProgressWriter(paths.rank_progress(rank), clock) for rank in (2, 3)}
    assert look(watchdog, clock, 60) == [], "no progress file yet: not watched"
    for step in range(3):
        for writer in writers.values():
            writer.step_begins()
            writer.mark(Section.STEP, step)
        clock.now += 0.5
        watchdog.find_stalls()
    for _ in range(20):
        writers[2].mark(Section.DATA, 3)
        assert look(watchdog, clock, 1) in ([], [3])
    assert look(watchdog, clock, 1) == [3]


def test_a_suspended_agent_blames_no_rank(tmp_path: Path) -> None:
    clock, paths = Clock(), NodePaths(tmp_path)
    watchdog = Watchdog(Tag("r"), paths, range(1), clock)
    writer = RankProgressWriter(paths.rank_progress(0), clock)
    for step in range(3):
        writer.step_begins()
        writer.mark(Section.STEP, step)
        clock.now += 0.1
    watchdog.find_stalls()
    clock.now += 3600  # the laptop was closed
    assert watchdog.find_stalls() == []
    writer.mark(Section.STEP, 4)
    assert look(watchdog, clock, 9) == []


def test_the_blocking_rank_is_distinguished_from_waiting_ranks() -> None:
    stalls = [stall(0), stall(1), stall(2)]
    waiting = {0: WAITING, 1: BACKWARD, 2: WAITING}
    assert blame(stalls, [], {0: "S", 1: "S", 2: "S"}, waiting) is None
    assert blame(stalls, [], {0: "S", 1: "T", 2: "S"}, waiting) == (
        "rank 1 hangs: its process is stopped, no progress for 12 s in step after step 7"
    )
    assert blame([*stalls, stall(3, Section.DATA)], [], {}, waiting) == (
        "rank 3 hangs: it waits for data, no progress for 12 s in data after step 7"
    )
    assert blame(stalls, [], {}, {**waiting, 2: BUSY}) == (
        "rank 2 hangs: its peers wait for it, no progress for 12 s in step after step 7"
    )
    late = [stall(3, age_s=9.9)]
    assert blame(stalls, late, {3: "S"}, {**waiting, 3: WAITING}) is None
    assert blame(stalls, late, {3: "T"}, waiting) == (
        "rank 3 hangs: its process is stopped, no progress for 10 s in step after step 7"
    )
    assert blame(stalls, late, {}, {**waiting, 3: BUSY}) == (
        "rank 3 hangs: its peers wait for it, no progress for 10 s in step after step 7"
    )
    assert blame(stalls, [stall(3, Section.END)], {}, {**waiting, 3: BUSY}) is None, "it has ended"
    assert describe_waiting([stall(0), stall(1, age_s=13.4)]) == (
        "no progress for 13 s after step 7: all ranks of this node wait for others"
    )
