from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsdpctl.logs.splitter import LIMIT, LineSplitter
from fsdpctl.logs.tail import BLOCK, Tail, start_of_last


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "rank-0.log"


def append(path: Path, data: bytes) -> None:
    with open(path, "ab") as file:
        file.write(data)


def split(data: bytes) -> list[str]:
    splitter = LineSplitter()
    return splitter.feed(data) + splitter.end()


# --- bytes to lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\n\nb\n", ["a", "", "b"]),
        (b"no end", ["no end"]),
        (b"dos\r\n", ["dos"]),
        (b" 1%\r50%\r99%\n", ["99%"]),
        (b" 1%\r50%\r\n", ["50%"]),
        (b"caf\xc3\xa9\n", ["caf\xe9"]),
        (b"caf\xc3\n", ["caf\\xc3"]),
        (b"\x80\x00\x1b[31m\n", ["\\x80\x00\x1b[31m"]),  # control characters are escaped on output
        (b"a\x0bb\x0c\x1c\xc2\x85\xe2\x80\xa8c\n", ["a\x0bb\x0c\x1c\x85\u2028c"]),  # only \n ends a line
    ],
)
def test_lines_of_bytes(data: bytes, lines: list[str]) -> None:
    assert split(data) == lines


def test_a_10_kb_line_stays_whole() -> None:
    assert split(b"x" * 10_000 + b"\n") == ["x" * 10_000]


@pytest.mark.parametrize("length", [LIMIT - 1, LIMIT, LIMIT + 1, 5 * LIMIT])
def test_only_a_line_over_the_limit_is_cut_and_marked(length: int) -> None:
    (line,) = split(b"x" * length + b"\n")
    assert line[: LIMIT + 1].count("x") == min(length, LIMIT)
    assert line.endswith("[line cut at 65536 bytes]") == (length > LIMIT)


def test_a_line_without_end_takes_bounded_memory() -> None:
    splitter = LineSplitter()
    for _ in range(200):
        assert splitter.feed(b"x" * 50_000) == []
    assert len(splitter._held) <= LIMIT + 2


def test_a_progress_bar_of_hours_takes_bounded_memory_and_keeps_its_last_state() -> None:
    splitter = LineSplitter()
    for percent in range(20_000):
        splitter.feed(b"\r%020d" % percent)
    assert len(splitter._held) <= LIMIT + 2
    assert splitter.feed(b"\n") == ["00000000000000019999"]


PIECE = st.sampled_from([b"a", b"\n", b"\r", b"\xc3\xa9", b"\xff", b"\x00", b"x" * (LIMIT - 1), b"y" * LIMIT])


@given(st.lists(st.lists(PIECE, max_size=6).map(b"".join), max_size=6))
def test_lines_do_not_depend_on_how_the_bytes_were_cut(chunks: list[bytes]) -> None:
    splitter = LineSplitter()
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    assert lines + splitter.end() == split(b"".join(chunks))


# --- following a file ------------------------------------------------------------------------------------------------


def test_a_missing_file_is_waited_for(log: Path) -> None:
    tail = Tail(log)
    assert list(tail.poll()) == []
    append(log, b"first\n")
    assert list(tail.poll()) == ["first"]
    assert list(tail.poll()) == []


def test_a_partial_line_is_held_until_its_newline(log: Path) -> None:
    tail = Tail(log)
    append(log, b"one\ntw")
    assert list(tail.poll()) == ["one"]
    append(log, b"o\n")
    assert list(tail.poll()) == ["two"]


def test_a_partial_line_is_given_at_the_end(log: Path) -> None:
    tail = Tail(log)
    append(log, b"killed in the mid")
    assert list(tail.poll()) == []
    assert list(tail.poll(final=True)) == ["killed in the mid"]
    assert list(tail.poll(final=True)) == []


def test_a_truncated_file_is_read_from_its_start(log: Path) -> None:
    tail = Tail(log)
    append(log, b"old 1\nold 2\nhalf")
    assert list(tail.poll()) == ["old 1", "old 2"]
    log.write_bytes(b"new\n")
    assert list(tail.poll()) == ["half", "new"]


def test_a_replaced_file_is_read_from_its_start_even_if_it_is_longer(log: Path) -> None:
    tail = Tail(log)
    append(log, b"old\n")
    assert list(tail.poll()) == ["old"]
    log.rename(log.with_suffix(".1"))
    append(log, b"new, and longer than the old\n")
    assert list(tail.poll()) == ["new, and longer than the old"]


def test_a_deleted_file_may_appear_again(log: Path) -> None:
    tail = Tail(log)
    append(log, b"before\n")
    assert list(tail.poll()) == ["before"]
    log.unlink()
    assert list(tail.poll()) == []
    append(log, b"other!\n")  # as long as the old, and often with the same inode number
    assert list(tail.poll()) == ["other!"]


def test_an_unchanged_file_is_not_opened(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tail = Tail(log)
    append(log, b"x\n")
    list(tail.poll())
    monkeypatch.setattr("builtins.open", None)
    assert list(tail.poll()) == []


def test_binary_garbage_is_harmless(log: Path) -> None:
    append(log, os.urandom(300_000) + b"\nafter\n")
    assert list(Tail(log).poll())[-1] == "after"


@given(st.lists(st.lists(st.sampled_from([b"ab", b"\n", b"\r", b"\xff"]), max_size=9).map(b"".join), max_size=6))
def test_polls_between_writes_see_the_same_lines_as_one_read(chunks: list[bytes]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "rank-0.log")
        tail = Tail(log)
        lines: list[str] = []
        for chunk in chunks:
            append(log, chunk)
            lines += tail.poll()
        assert lines + list(tail.poll(final=True)) == split(b"".join(chunks))


# --- the last lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 99])
@pytest.mark.parametrize("data", [b"", b"\n", b"a\n", b"a\nb\nc\n", b"a\nb\nhalf", b"half", b"\n\n\n\n\n"])
def test_start_of_last(log: Path, data: bytes, count: int) -> None:
    append(log, data)
    *whole, half = data.split(b"\n")
    expected = b"".join(line + b"\n" for line in whole[max(0, len(whole) - count) :]) + half
    assert data[start_of_last(log, count) :] == expected


@pytest.mark.parametrize("width", [1, 100, BLOCK - 1, BLOCK, BLOCK + 1])
def test_start_of_last_across_blocks(log: Path, width: int) -> None:
    append(log, b"".join(b"%d" % (i % 10) * width + b"\n" for i in range(7)))
    assert [line[:1] for line in Tail(log, start_of_last(log, 3)).poll()] == ["4", "5", "6"]


def test_start_of_last_of_a_missing_file(log: Path) -> None:
    assert start_of_last(log, 5) == 0
