from __future__ import annotations

import os
from pathlib import Path

import pytest

from fsdpctl.contract import RankFailure
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.records import NodeEnd, RankError
from fsdpctl.logs.reader import AttemptReader
from fsdpctl.logs.sources import LogSelection, find_logs, read_errors

ALL = LogSelection()


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    return AttemptPaths(tmp_path / "attempts" / "1")


def write(attempt: AttemptPaths, rank: int, *texts: str, end: str = "\n") -> Path:
    """Append lines to the log of a rank, two ranks per node."""
    node = attempt.node(rank // 2)
    node.root.mkdir(parents=True, exist_ok=True)
    with open(node.rank_log(rank), "a") as file:
        file.write("".join(text + end for text in texts))
    return node.rank_log(rank)


def at(second: int, text: str) -> str:
    return f"2026-11-27 23:05:{second:02},000 {text}"


def test_files_are_found_by_rank_node_and_source(attempt: AttemptPaths) -> None:
    for rank in range(12):
        write(attempt, rank, "x")
    attempt.node(1).agent_log.touch()
    attempt.node(1).torchrun_log.touch()

    def found(choice: LogSelection) -> list[tuple[int, str, int | None]]:
        return [(file.node_rank, file.source, file.rank) for file in find_logs(attempt, choice)]

    assert found(ALL) == [(rank // 2, "rank", rank) for rank in range(12)]
    assert found(LogSelection(ranks=frozenset({5, 10}))) == [(2, "rank", 5), (5, "rank", 10)]
    assert found(LogSelection(nodes=frozenset({1}), agent=True)) == [
        (1, "agent", None),
        (1, "torchrun", None),
        (1, "rank", 2),
        (1, "rank", 3),
    ]


def test_an_attempt_without_files_has_no_logs(attempt: AttemptPaths) -> None:
    assert find_logs(attempt, ALL) == []
    assert read_errors(attempt) == []
    assert list(AttemptReader(attempt, ALL).poll()) == []


def test_unstamped_lines_stay_with_the_stamped_line_before_them(attempt: AttemptPaths) -> None:
    write(attempt, 0, at(1, "a"), "  trace", at(3, "c"))
    write(attempt, 1, at(2, "b"))
    texts = [line.text for line in AttemptReader(attempt, ALL).poll()]
    assert texts == [at(1, "a"), "  trace", at(2, "b"), at(3, "c")]


def test_a_stamp_is_inherited_across_polls(attempt: AttemptPaths) -> None:
    reader = AttemptReader(attempt, ALL)
    write(attempt, 0, at(9, "late"))
    list(reader.poll())
    write(attempt, 0, "still late")
    write(attempt, 1, at(8, "early"))
    assert [line.rank for line in reader.poll()] == [1, 0]


def test_new_files_are_found_while_following(attempt: AttemptPaths) -> None:
    reader = AttemptReader(attempt, ALL)
    assert list(reader.last(10)) == []
    write(attempt, 3, "hello")
    assert [(line.node_rank, line.rank, line.text) for line in reader.poll()] == [(1, 3, "hello")]


def test_last_then_poll_gives_each_line_once(attempt: AttemptPaths) -> None:
    write(attempt, 0, *(at(i % 60, str(i)) for i in range(500)))
    write(attempt, 0, "half", end="")
    reader = AttemptReader(attempt, ALL)
    assert [line.text[-3:] for line in reader.last(2)] == ["498", "499"]
    assert list(reader.poll()) == []
    write(attempt, 0, " done")
    assert [line.text for line in reader.poll()] == ["half done"]


def test_no_last_lines_still_skips_what_was_there(attempt: AttemptPaths) -> None:
    write(attempt, 0, "old")
    reader = AttemptReader(attempt, ALL)
    assert list(reader.last(0)) == []
    write(attempt, 0, "new")
    assert [line.text for line in reader.poll()] == ["new"]


def test_the_last_lines_inherit_a_stamp_from_before_them(attempt: AttemptPaths) -> None:
    write(attempt, 0, at(5, "raised"), *(f"  frame {i}" for i in range(20)))
    write(attempt, 1, at(4, "before"))
    assert [line.rank for line in AttemptReader(attempt, ALL).last(3)] == [1, 0, 0, 0]


def test_a_rank_that_only_printed_a_traceback_is_placed_by_the_change_of_its_file(attempt: AttemptPaths) -> None:
    reference = 1_795_000_000
    os.utime(write(attempt, 0, "Traceback", "ValueError: x"), (reference, reference))
    write(attempt, 1, "2026-01-01 00:00:00,000 long before")
    assert [line.rank for line in AttemptReader(attempt, ALL).last(10)] == [1, 0, 0]


def test_partial_lines_are_shown_at_the_end(attempt: AttemptPaths) -> None:
    write(attempt, 0, "killed mid", end="")
    reader = AttemptReader(attempt, ALL)
    assert list(reader.poll()) == []
    assert [line.text for line in reader.poll(final=True)] == ["killed mid"]


def test_a_log_may_be_deleted_while_followed(attempt: AttemptPaths) -> None:
    path = write(attempt, 0, "a")
    write(attempt, 1, "b")
    reader = AttemptReader(attempt, ALL)
    list(reader.poll())
    path.unlink()
    write(attempt, 1, "c")
    assert [line.text for line in reader.poll()] == ["c"]
    write(attempt, 0, "d")
    assert [line.text for line in reader.poll()] == ["d"]


def test_errors_of_all_nodes_are_read_and_a_broken_one_is_reported(attempt: AttemptPaths) -> None:
    for rank in range(4):
        write(attempt, rank, "x")
    good = RankError(rank=3, node_rank=1, time=5.0, message="ValueError: x", traceback="")
    write_json(attempt.node(1).rank_error(3), good)
    attempt.node(0).rank_error(1).write_text('{"rank": 1')
    broken, read = read_errors(attempt)
    assert read == good
    assert (broken.rank, broken.node_rank) == (1, 0)
    assert broken.message.startswith("unreadable error file: ")


def test_a_killed_rank_is_reported_by_its_agent(attempt: AttemptPaths) -> None:
    write(attempt, 2, "x")
    killed = RankError(2, 1, 7.0, "ended with signal 9 (SIGKILL)", "", failure=RankFailure.SIGNAL)
    write_json(attempt.node(1).end, NodeEnd(1, "", failed_rank=2, time=7.0, first_error=killed))
    assert read_errors(attempt) == [killed]
    own = RankError(rank=2, node_rank=1, time=6.0, message="ValueError: x", traceback="")
    write_json(attempt.node(1).rank_error(2), own)
    assert read_errors(attempt) == [own]
