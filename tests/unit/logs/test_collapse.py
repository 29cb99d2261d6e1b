from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdpctl.logs.collapse import collapse
from fsdpctl.logs.line import Line, LogFile, Source
from fsdpctl.logs.prefix import prefixed, widths
from fsdpctl.logs.ranges import fold, fold_names


def line(rank: int, text: str, source: Source = "rank") -> Line:
    return Line(rank // 4, source, rank if source == "rank" else None, None, text)


def file(node: int, rank: int | None, source: Source = "rank") -> LogFile:
    return LogFile(node, source, rank, Path("x"))


def show(lines: list[Line]) -> list[str]:
    columns = widths([file(rank // 4, rank) for rank in range(8)])
    return [prefixed(group, columns) for group in collapse(lines)]


@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ([], ""),
        ([7], "7"),
        ([0, 1], "0,1"),
        ([3, 2, 1, 0, 6], "0-3,6"),
        ([1, 1, 1], "1"),
        ([0, 2, 3, 4, 9, 10], "0,2-4,9,10"),
    ],
)
def test_fold(numbers: list[int], text: str) -> None:
    assert fold(numbers) == text


@given(st.sets(st.integers(0, 100)))
def test_fold_writes_exactly_those_numbers(numbers: set[int]) -> None:
    shown: set[int] = set()
    for run in filter(None, fold(numbers).split(",")):
        first, _, last = run.partition("-")
        shown.update(range(int(first), int(last or first) + 1))
    assert shown == numbers


def test_the_same_text_of_many_ranks_is_one_line() -> None:
    assert show([line(rank, "hello") for rank in (0, 1, 2, 3, 6)]) == ["node[0,1] rank[0-3,6] | hello"]


def test_different_text_is_untouched_and_in_order_of_first_appearance() -> None:
    assert show([line(0, "a"), line(1, "b"), line(5, "a")]) == [
        "node[0,1] rank[0,5] | a",
        "node0     rank1     | b",
    ]


def test_a_line_that_one_rank_writes_twice_stays_twice() -> None:
    assert show([line(0, "x"), line(0, "x"), line(1, "x")]) == [
        "node0     rank[0,1] | x",
        "node0     rank0     | x",
    ]


def test_stamps_and_rank_marks_do_not_keep_equal_lines_apart() -> None:
    texts = ["[rank0]:[W1127 23:05:46.123 a.cpp:1] w", "[rank1]:[W1127 23:05:46.124 a.cpp:1] w"]
    assert show([line(rank, text) for rank, text in enumerate(texts)]) == [f"node0     rank[0,1] | {texts[0]}"]


def test_lines_of_an_agent_and_a_rank_are_never_grouped() -> None:
    assert [len(group) for group in collapse([line(0, "x"), line(0, "x", "agent"), line(4, "x", "agent")])] == [
        1,
        2,
    ]


def test_the_prefix_names_agents_by_node() -> None:
    files = [file(0, None, "agent"), file(0, None, "torchrun"), file(0, 0)]
    lines = [line(0, "x", "agent"), line(0, "y", "torchrun"), line(0, "z")]
    assert [prefixed(group, widths(files)) for group in collapse(lines)] == [
        "node0 agent    | x",
        "node0 torchrun | y",
        "node0 rank0    | z",
    ]


@given(st.lists(st.builds(line, st.integers(0, 7), st.sampled_from(["a", "b", "2026-11-27 23:05:46 a"]))))
def test_no_line_is_lost_and_no_group_has_a_rank_twice(lines: list[Line]) -> None:
    groups = collapse(lines)
    assert Counter(found for group in groups for found in group) == Counter(lines)
    assert all(len({found.rank for found in group}) == len(group) for group in groups)


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ([], ""),
        (["login"], "login"),
        (["node7"], "node7"),
        ([f"local{rank}" for rank in range(99)], "local[0-98]"),
        (["node08", "node09", "node10", "login"], "node[08-10],login"),
        (["node1", "node01"], "node1,node01"),
        (["a2", "b3", "a4"], "a[2,4],b3"),
        (["gpu-1.example.com", "gpu-2.example.com", "gpu-3.example.com"], "gpu-[1-3].example.com"),
    ],
)
def test_names_are_folded_with_their_padding(names: list[str], folded: str) -> None:
    assert fold_names(names) == folded
