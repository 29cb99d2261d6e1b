"""A table on a terminal and in a pipe."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from concurrent.futures import ThreadPoolExecutor

import pytest

from fsdpctl.cli.output import KEY_WIDTH, open_outlet, safe, write

TABLE = """
from fsdpctl.cli.output import print_table
print_table(("A", "NODES", "REASON"), [("x", "node[0-9]", "one two three four five six seven"), ("y", "all", "ok")])
"""
ONE_LINE = "x  node[0-9]  one two three four five six seven"


def on_terminal(columns: int, code: str = TABLE, *, stdout: int | None = None, **variables: str) -> list[str]:
    """Return what is printed to a terminal of this width, without colours; `stdout` may be another file."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"NO_COLOR": "1"} | variables
    streams = {"stdin": theirs, "stdout": theirs if stdout is None else stdout, "stderr": theirs}
    process = subprocess.Popen([sys.executable, "-c", code], **streams, env=env)
    os.close(theirs)
    printed = b""
    try:
        while chunk := os.read(ours, 4096):
            printed += chunk
    except OSError:  # how Linux reports that the other side is closed
        pass
    assert process.wait(timeout=60) == 0
    os.close(ours)
    return printed.decode().splitlines()


def test_a_terminal_wraps_the_last_column() -> None:
    assert on_terminal(40) == [
        "A  NODES      REASON",
        "x  node[0-9]  one two three four five",
        "              six seven",
        "y  all        ok",
    ]


def test_a_row_that_fits_is_one_line_and_no_word_is_cut_where_the_column_is_too_narrow() -> None:
    assert on_terminal(200)[1] == ONE_LINE
    assert on_terminal(20) == [
        "A  NODES      REASON",
        "x  node[0-9]  one",
        "  two three four",
        "  five six seven",
        "y  all        ok",
    ]


ROWS = 'from fsdpctl.cli.output import print_rows; print_rows([("state", "FAILED: one two three four five six")])'


def test_a_colour_only_repeats_a_word() -> None:
    plain, colored = on_terminal(40, ROWS), on_terminal(40, ROWS, NO_COLOR="", TERM="xterm")
    assert plain == ["state      FAILED: one two three four", "           five six"]
    assert colored == [plain[0].replace("FAILED", "\x1b[31mFAILED\x1b[0m"), plain[1]]
    assert on_terminal(40, ROWS, NO_COLOR="", TERM="dumb") == plain


@pytest.mark.parametrize("columns", [1, 2, 11])
def test_a_terminal_of_a_few_columns_gets_a_word_a_line(columns: int) -> None:
    assert on_terminal(columns, ROWS)[:2] == ["state", " " * KEY_WIDTH + "FAILED:"]


LIVE = """
from fsdpctl.cli.follow import LiveLine
line = LiveLine()
line.show("llm-tiny-x7k2  RUNNING  step 12/100  loss 3.1416  12,345 tokens/s  ETA 0:01:02")
line.show("llm-tiny-x7k2  QUEUED  job 7 waits for nodes that other jobs have")
line.close("llm-tiny-x7k2  \u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587\u4e2d\u6587  RUNNING")
"""


@pytest.mark.parametrize("stdout", [None, subprocess.DEVNULL])
def test_the_live_line_of_a_narrow_terminal_ends_at_a_word_and_never_wraps(stdout: int | None) -> None:
    printed = "".join(on_terminal(40, LIVE, stdout=stdout)).split("\x1b[2K")[1:]
    assert printed == [
        "llm-tiny-x7k2  RUNNING  step 12/100",
        "llm-tiny-x7k2  QUEUED  job 7 waits for",
        "llm-tiny-x7k2  " + "\u4e2d\u6587" * 6,
    ]


def test_a_pipe_gets_one_line_per_row() -> None:
    env = {**os.environ, "COLUMNS": "40"}
    printed = subprocess.run([sys.executable, "-c", TABLE], capture_output=True, text=True, env=env, check=True).stdout
    assert printed.splitlines()[1] == ONE_LINE


@pytest.mark.parametrize("number", [0x1B, 0x7F, 0x9B, 0xAD, 0x200B, 0x200D, 0x202E, 0x2060, 0x2066, 0xFEFF, 0xE0041])
def test_what_is_invisible_or_reorders_text_is_escaped(number: int) -> None:
    assert safe(f"a{chr(number)}b") == f"a{ascii(chr(number))[1:-1]}b"


def test_what_is_visible_stays() -> None:
    text = "caf\u00e9 \u4e2d\u6587 \u26a0\ufe0f \U0001f680\tx\n"
    assert safe(text) == text


def test_everything_is_written_to_a_stream_that_is_non_blocking() -> None:
    """Write more than a pipe holds: each time that it is full the writer has to wait."""
    text = "x" * 2**20
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)
    with ThreadPoolExecutor(1) as pool, open(read_end, "rb") as reader, open(write_end, "w") as stream:
        arrived = pool.submit(reader.read, len(text))
        write(text, open_outlet(stream))
        assert arrived.result(60) == text.encode()
