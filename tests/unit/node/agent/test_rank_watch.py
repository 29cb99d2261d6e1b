"""A rank's process as its agent sees it: real processes, a clock of the test's own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.contract.node_report import Activity, RankReport
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.plan import HangLimits
from fsdpctl.contract.rank_progress import RankProgressWriter, Section
from fsdpctl.contract.stack_dump import find_main, parse_stacks
from fsdpctl.node.agent.rank_watch import RankWatch
from fsdpctl.node.agent.stacks import refresh_stacks
from fsdpctl.node.os.processes import Tag
from fsdpctl.node.os.usage import process_usage
from tests.backends.harness import wait_for

RANK = """
import os, pathlib, re, sys, threading
from fsdpctl.node.agent.stack_writer import StackWriter
StackWriter(pathlib.Path(os.environ["STACKS"])).start()
print("up", flush=True)
for line in sys.stdin:
    if line == "keep the lock\\n":
        re.match("(a+)+$", 40 * "a" + "b")
    if line == "start threads\\n":
        for number in range(40):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    sum(range(10_000_000)) if line == "work\\n" else None
    print("done", flush=True)
"""
TAG = Tag("rank-watch", 0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Rank:
    """Rank 3 of a run, and the agent's watch on it."""

    def __init__(self, directory: Path) -> None:
        self.paths, self.clock = NodePaths(directory), Clock()
        env = {Env.RUN_ID: TAG.run_id, Env.NODE_RANK: "0", "RANK": "3", "STACKS": str(self.paths.rank_stacks(3))}
        self.process = subprocess.Popen(
            [sys.executable, "-c", RANK], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None and self.process.stdout.readline() == "up\n"
        metrics = directory / "metrics.jsonl"
        self.watch = RankWatch(TAG, self.paths, range(3, 4), metrics, HangLimits(), self.clock)

    def ask(self, what: str) -> None:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(what, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline() == "done\n"

    def look(self, seconds: int = 1, step_s: float = 1.0) -> RankReport:
        for _ in range(seconds):
            self.clock.now += step_s
            (report,) = self.watch.look()
        return report


@pytest.fixture
def rank(tmp_path: Path) -> Iterator[Rank]:
    rank = Rank(tmp_path)
    yield rank
    rank.process.kill()
    rank.process.wait()


def test_signs_of_progress_count_in_each_section(rank: Rank) -> None:
    writer = RankProgressWriter(rank.paths.rank_progress(3))
    writer.mark(Section.SAVE, 4)
    assert rank.look().sign_s == 0.0
    assert rank.look(3).sign_s == 3.0
    writer.add_saved(100)
    assert rank.look().sign_s == 0.0
    writer.sign()
    assert rank.look().sign_s == 0.0
    writer.mark(Section.STEP, 5)
    assert rank.look().sign_s == 0.0
    writer.add_saved(100)  # beside the step, which makes no progress by it
    assert rank.look(2).sign_s == 2.0


def test_the_output_of_a_script_is_a_sign(rank: Rank) -> None:
    assert rank.look(3).sign_s > 1
    rank.paths.rank_log(3).write_text("loss 3.1\n")
    assert rank.look().sign_s == 0.0
    assert rank.look().progress is None


def test_writing_long_stacks_is_no_work(rank: Rank) -> None:
    RankProgressWriter(rank.paths.rank_progress(3)).mark(Section.SAVE, 4)
    rank.ask("start threads")
    rank.look(6)  # from then on children count, too
    assert rank.look(8).idle_s > 8  # its stacks are asked for
    wait_for(lambda: find_main(parse_stacks(rank.paths.rank_stacks(3).read_text())), 20, "the stacks")
    assert rank.paths.rank_stacks(3).stat().st_size > 4096
    assert rank.look().idle_s > 9


def test_processor_time_counts_and_sleep_does_not(rank: Rank) -> None:
    assert rank.look(6).idle_s >= 5  # from then on children count, too
    rank.ask("work")
    assert rank.look().idle_s == 0.0
    rank.ask("rest")
    assert rank.look(3).idle_s >= 2


def test_a_stopped_process_is_seen_and_the_time_of_a_suspended_host_does_not_count(rank: Rank) -> None:
    RankProgressWriter(rank.paths.rank_progress(3)).mark(Section.STEP, 4)
    rank.look()
    os.kill(rank.process.pid, signal.SIGSTOP)
    assert rank.look(1, step_s=3600.0).sign_s == 2.0
    assert rank.look(3).state == "T"
    os.kill(rank.process.pid, signal.SIGCONT)


def test_the_stack_of_a_late_rank_is_read(rank: Rank) -> None:
    RankProgressWriter(rank.paths.rank_progress(3)).mark(Section.STEP, 4)
    rank.look(10)  # late soon: its stack is asked for
    deadline = time.monotonic() + 20
    while (report := rank.look()).activity is Activity.UNKNOWN and time.monotonic() < deadline:
        time.sleep(0.02)
    assert (report.activity, report.where) == (Activity.WORKING, "<string>:6 <module>")


@pytest.mark.slow
def test_a_rank_that_keeps_the_lock_of_the_interpreter_is_read_by_force_and_only_once_it_hangs(rank: Rank) -> None:
    writer = RankProgressWriter(rank.paths.rank_progress(3))
    for step in (1, 2, 3):
        writer.step_begins()
        writer.mark(Section.STEP, step)
    assert rank.process.stdin is not None
    print("keep the lock", file=rank.process.stdin, flush=True)
    wait_for(lambda: process_usage(rank.process.pid).cpu_s > 0.5, 20, "the lock to be kept")
    for _ in range(9):
        assert rank.look().activity is Activity.UNKNOWN
        time.sleep(0.02)
    assert not rank.paths.rank_stacks(3).read_text(), "not before its limit is over"
    wait_for(lambda: rank.look().activity is Activity.WORKING, 20, "the stack")
    assert rank.look().where.endswith(" match")
    refresh_stacks({3: rank.process.pid})
    assert "match" in rank.paths.rank_stacks(3).read_text()


def test_a_rank_that_is_gone_has_ended_and_one_that_never_came_has_not(rank: Rank, tmp_path: Path) -> None:
    assert rank.look().is_up
    rank.process.kill()
    rank.process.wait()
    assert rank.look(3).ended_s == 2.0
    (never,) = RankWatch(Tag("no-such-run"), rank.paths, range(1), tmp_path / "none", HangLimits()).look()
    assert (never.is_up, never.ended_s) == (False, None)


def test_a_rank_that_has_come_and_gone_between_two_looks_has_ended(tmp_path: Path) -> None:
    clock, paths = Clock(), NodePaths(tmp_path)
    watch = RankWatch(TAG, paths, range(3, 4), tmp_path / "metrics.jsonl", HangLimits(), clock)
    (first,) = watch.look()
    paths.rank_log(3).touch()
    (second,) = watch.look()  # it may have begun after its process was looked for
    (third,) = watch.look()
    assert (first.ended_s, second.ended_s, third.ended_s, third.is_up) == (None, None, 0.0, False)
