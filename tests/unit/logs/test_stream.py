"""The order of lines by the index that the agent writes beside each log."""

from __future__ import annotations

import os
import random
import time
from pathlib import Path

import pytest

from fsdpctl.contract.paths import AttemptPaths, times_of
from fsdpctl.logs.collapse import collapse_slots
from fsdpctl.logs.line import Line, LogFile
from fsdpctl.logs.reader import AttemptReader
from fsdpctl.logs.sources import LogSelection, find_outside
from fsdpctl.logs.stream import Stream
from fsdpctl.node.agent.log_watch import LogWatch
from tests.processor_time import done_within

ALL = LogSelection()


class Node:
    """The logs of a node with four ranks and the agent that watches them, by a clock of the test's own."""

    def __init__(self, attempt: AttemptPaths, monkeypatch: pytest.MonkeyPatch) -> None:
        self.paths, self.now = attempt.node(0), 1_795_000_000.0
        self.paths.root.mkdir(parents=True)
        monkeypatch.setattr(time, "time", lambda: self.now)
        self.watch = LogWatch(self.paths, range(4))

    def write(self, rank: int, text: str) -> None:
        path = self.paths.rank_log(rank)
        with path.open("a") as file:
            file.write(text)
        os.utime(path, (self.now, self.now))

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.watch.look()


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    return AttemptPaths(tmp_path / "attempts" / "1")


@pytest.fixture
def node(attempt: AttemptPaths, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(attempt, monkeypatch)


def all_lines(attempt: AttemptPaths) -> list[Line]:
    return list(AttemptReader(attempt, ALL).poll(final=True))


def stamped(node: Node, text: str) -> str:
    clock = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(node.now))
    return f"{clock},{int(node.now * 1000) % 1000:03} {text}\n"


def test_lines_without_a_stamp_come_in_the_order_in_which_they_were_written(attempt: AttemptPaths, node: Node) -> None:
    for turn in range(12):
        node.write(turn % 4, f"{turn}\n")
        node.pass_time(0.1)
    lines = all_lines(attempt)
    assert [line.text for line in lines] == [str(turn) for turn in range(12)]
    assert lines[5].stamp == pytest.approx(1_795_000_000.5)


def test_a_stamp_orders_lines_between_two_looks_and_a_wrong_one_does_not_count(
    attempt: AttemptPaths, node: Node
) -> None:
    node.pass_time(0.1)
    began, node.now = node.now, node.now + 0.06
    node.write(1, stamped(node, "second"))
    node.now = began + 0.03
    node.write(0, stamped(node, "first"))
    node.write(2, "2001-01-01 00:00:00 of a clock that is wrong\n")
    node.now = began
    node.pass_time(0.1)
    assert [line.rank for line in all_lines(attempt)] == [2, 0, 1]


def test_a_traceback_stays_with_its_first_line(attempt: AttemptPaths, node: Node) -> None:
    node.now += 0.05
    node.write(0, stamped(node, "raised") + "  frame\n  frame\n")
    node.write(1, stamped(node, "other"))
    node.pass_time(0.05)
    assert [line.rank for line in all_lines(attempt)] == [0, 0, 0, 1]


def test_what_the_agent_did_not_see_is_shown_after_all_that_it_saw(attempt: AttemptPaths, node: Node) -> None:
    node.write(0, "seen\n")
    node.pass_time(0.1)
    node.write(0, "written after the agent had died\n")
    with times_of(node.paths.rank_log(0)).open("ab") as file:
        file.write(b"cut off")
    assert [line.text for line in all_lines(attempt)] == ["seen", "written after the agent had died"]


@pytest.mark.parametrize("seed", range(20))
def test_the_order_and_the_folding_are_the_same_while_following(attempt: AttemptPaths, node: Node, seed: int) -> None:
    choose = random.Random(seed)
    reader = AttemptReader(attempt, ALL)
    followed = list(collapse_slots(reader.last(10)))
    written = 0
    for _ in range(120):
        for _ in range(choose.randrange(4)):
            text = choose.choice(["equal\n", f"own {written}\n", "hal", stamped(node, f"{written}")])
            node.write(choose.randrange(4), text)
            written += 1
            node.now += 0.001
        node.pass_time(0.1)
        if choose.random() < 0.4:
            followed += collapse_slots(reader.poll())
    for rank in range(4):
        node.write(rank, "the end\n")  # a line without an end is known only when the run has ended
    node.pass_time(0.1)
    followed += collapse_slots(reader.poll(final=True))
    assert written > 100
    assert followed == list(collapse_slots(AttemptReader(attempt, ALL).poll(final=True)))


def test_a_look_at_64_logs_that_grow_takes_no_time(attempt: AttemptPaths) -> None:
    paths = attempt.node(0)
    paths.root.mkdir(parents=True)
    watch = LogWatch(paths, range(64))
    for rank in range(64):
        paths.rank_log(rank).write_text("x\n")

    def look() -> None:
        for rank in range(64):
            with paths.rank_log(rank).open("a") as log:
                log.write("x\n")
        watch.look()

    done_within(0.05, look)  # of the 0.1 s between two looks


def test_the_last_lines_of_gigabytes_without_a_newline_are_found_at_once(attempt: AttemptPaths) -> None:
    """A progress bar that ran for days: only its end is read."""
    log = attempt.node(0).rank_log(0)
    log.parent.mkdir(parents=True)
    with log.open("wb") as file:
        file.truncate(5_000_000_000)  # sparse
        file.seek(0, os.SEEK_END)
        file.write(b"\r99%\r100%\ndone\n")
    before = bytes_read()
    texts = [line.text for line in AttemptReader(attempt, ALL).last(20, final=True)]
    assert texts == ["100%", "done"]
    assert bytes_read() - before < 50_000_000


def bytes_read() -> int:
    """Return how much this process has read so far."""
    return int(Path("/proc/self/io").read_text().partition("rchar: ")[2].split()[0])


def test_a_log_that_is_a_link_to_a_file_outside_of_the_run_is_not_read(attempt: AttemptPaths, tmp_path: Path) -> None:
    node = attempt.node(0)
    node.root.mkdir(parents=True)
    secret = tmp_path.parent / "secret"
    secret.write_text("of the user\n")
    node.rank_log(0).symlink_to(secret)
    node.rank_log(1).write_text("own\n")
    node.rank_log(2).symlink_to(node.rank_log(1))
    assert [(line.rank, line.text) for line in all_lines(attempt)] == [(1, "own"), (2, "own")]
    assert [file.rank for file in find_outside(attempt, ALL)] == [0]


def test_a_line_held_at_each_poll_makes_no_later_poll_slower(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    arrived = [Line(0, "rank", 0, float(turn), str(turn)) for turn in range(15_000)]
    monkeypatch.setattr(Stream, "_arrived", lambda *_, **__: iter(arrived))

    def follow() -> list[str]:
        stream = Stream(LogFile(0, "rank", 0, tmp_path / "rank-0.log"))
        return [line.text for turn in range(15_000) for line in stream.lines(until=float(turn))]

    assert done_within(0.3, follow) == [str(turn) for turn in range(14_999)]
