from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from hypothesis import given
from hypothesis import strategies as st

from fsdpctl.logs.line import Line
from fsdpctl.logs.merge import merge


def line(rank: int, stamp: float | None, text: str = "") -> Line:
    return Line(node_rank=0, source="rank", rank=rank, stamp=stamp, text=text)


def stamp_of(found: Line) -> float:
    return -1.0 if found.stamp is None else found.stamp


# Stamps may run backwards: clocks are set, and logs are not sorted before they are written.
STAMPS = st.none() | st.integers(0, 5).map(float)
FILES = st.lists(st.lists(STAMPS, max_size=8), max_size=5).map(
    lambda files: [[line(rank, stamp, str(i)) for i, stamp in enumerate(file)] for rank, file in enumerate(files)]
)


@given(FILES)
def test_every_line_comes_once_and_no_file_is_reordered(files: list[list[Line]]) -> None:
    merged = list(merge(files))
    assert len(merged) == sum(map(len, files))
    for rank, file in enumerate(files):
        assert [found for found in merged if found.rank == rank] == file


@given(FILES)
def test_files_in_order_of_time_merge_to_order_of_time(files: list[list[Line]]) -> None:
    stamps = [stamp_of(found) for found in merge(sorted(file, key=stamp_of) for file in files)]
    assert stamps == sorted(stamps)


def test_a_tie_goes_to_the_first_stream_and_blocks_stay_together() -> None:
    merged = merge([[line(0, 1.0, "a"), line(0, 1.0, "b")], [line(1, 1.0, "c"), line(1, 0.5, "d")]])
    assert [found.text for found in merged] == ["a", "b", "c", "d"]


def test_lines_before_the_first_stamp_stay_in_front() -> None:
    merged = merge([[line(0, 1.0, "stamped")], [line(1, None, "banner"), line(1, 2.0, "later")]])
    assert [found.text for found in merged] == ["banner", "stamped", "later"]


def test_one_line_of_each_stream_is_held_at_a_time() -> None:
    taken = 0

    def endless(rank: int) -> Iterator[Line]:
        nonlocal taken
        for number in range(1_000_000):
            taken += 1
            yield line(rank, float(number))

    assert len(list(islice(merge([endless(0), endless(1)]), 10))) == 10
    assert taken <= 12
