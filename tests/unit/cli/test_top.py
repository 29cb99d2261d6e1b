"""`fsdpctl top`: what fits the screen, what keys do, and what it costs for a run of 64 ranks."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import select
import struct
import subprocess
import termios
import time
from dataclasses import replace

import pytest

from fsdpctl.cli.keys import OTHER, Keyboard, split_keys
from fsdpctl.cli.terminal import width
from fsdpctl.cli.top import EVERY_S
from fsdpctl.cli.top_rows import Key, make_rows
from fsdpctl.cli.top_screen import View, draw, press
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.node_report import Activity, GpuSample, NodeReport, RankReport, write_report
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.rank_progress import RankProgress, Section
from fsdpctl.contract.records import RankError
from fsdpctl.node.os.processes import identify
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.runs.store import create
from fsdpctl.verbs.top import TopReader, TopRun
from tests.backends.harness import COMMAND
from tests.processor_time import done_within

GPU = GpuSample(
    index=0,
    name="NVIDIA H200",
    busy=0.98,
    sm_activity=0.71,
    tensor_activity=0.44,
    memory_used=101 * 2**30,
    memory_total=140 * 2**30,
    power_w=651.0,
    power_limit_w=700.0,
    temperature_c=64,
    sm_clock_mhz=1755,
    max_sm_clock_mhz=1980,
    throttle=("sw_power_cap", "hw_thermal_slowdown"),
)


def make_run(num_nodes: int, ranks_per_node: int, gpus: bool = True) -> RunPaths:
    """Return a run of which this process seems to be every agent."""

    def fill(run: RunPaths) -> None:
        write_json(run.trainer_config, {"steps": 400})
        lines = [
            {"step": step, "loss": 2.5, "time": 2.0 * step, "tokens": 4096 * step, "tokens_per_s": 2048.0 + step % 3}
            for step in range(1, 41)
        ]
        lines[-1]["slow_ranks"] = {"1": "vm"}
        run.metrics.write_text("".join(f"{json.dumps({**line, 'attempt': 1, 'mfu': 0.51})}\n" for line in lines))
        for number in range(num_nodes):
            node = run.attempt(1).node(number)
            node.root.mkdir(parents=True)
            write_json(node.agent, replace(identify(os.getpid()), host=f"node{number}"))
            first = number * ranks_per_node
            ranks = [
                RankReport(rank, RankProgress(Section.STEP, 40), sign_s=0.4)
                for rank in range(first, first + ranks_per_node)
            ]
            ranks[-1] = replace(ranks[-1], sign_s=12.0, activity=Activity.PEERS, where="loop.py:7 step")
            samples = tuple(replace(GPU, index=index) for index in range(ranks_per_node)) if gpus else ()
            write_report(node.heartbeat, NodeReport(1, tuple(ranks), samples))

    return create(default_runs_root(), RunRecord.new("llm-aaaa", "llm", "local", "local", 1.0, num_nodes), fill)


@pytest.fixture
def small() -> list[TopRun]:
    run = make_run(2, 2)
    error = RankError(1, 0, 5.0, "ValueError: the data is \x1b[31mbroken", "")
    write_json(run.attempt(1).node(0).rank_error(1), error)
    run.attempt(1).node(0).rank_log(1).touch()
    return TopReader(None).read()


def test_the_tree_has_runs_nodes_and_ranks(small: list[TopRun]) -> None:
    lines = draw(small, View(), 150, 30)
    assert lines[0].split() == [
        "RUN",
        "DOING",
        "STEP",
        "AGE",
        "BUSY",
        "MEMORY",
        "CLOCKS",
        "POWER",
        "TEMP",
        "SM",
        "TENSOR",
    ]
    gpus = "98%  101/140 GiB  1755 MHz  hw thermal, sw power cap  2604 W  64 C 71% 44%"
    assert lines[1].split() == f"> - llm-aaaa RUNNING 40/400 {gpus}".split()
    assert [line.split()[:4] for line in lines[2:8]] == [
        ["-", "node", "0", "node0"],
        ["rank", "0", "step", "40"],
        ["rank", "1", "step,", "slow"],
        ["-", "node", "1", "node1"],
        ["rank", "2", "step", "40"],
        ["rank", "3", "step,", "waits"],
    ]
    text = "\n".join(lines)
    assert "loss 2.5000" in text and "MFU 51.0%" in text and "slow: rank 1" in text
    assert "2 s a step (2 to 2)" in text
    assert "error: rank 1: ValueError: the data is \\x1b[31mbroken" in text


@pytest.mark.parametrize("columns", [150, 80, 60, 40])
def test_every_line_fits_and_no_word_is_cut(small: list[TopRun], columns: int) -> None:
    whole = {word for line in draw(small, View(), 300, 50) for word in line.split()}
    lines = draw(small, View(), columns, 24)
    assert max(map(width, lines)) <= columns
    assert {word for line in lines for word in line.split()} <= whole
    assert "DOING" in lines[0] and ("TENSOR" in lines[0]) == (columns == 150)


def test_without_gpus_there_are_no_empty_columns() -> None:
    make_run(1, 2, gpus=False)
    assert draw(TopReader(None).read(), View(), 80, 24)[0].split() == ["RUN", "DOING", "STEP", "AGE"]


def test_a_large_run_is_shown_by_node_and_the_cursor_stays_in_view() -> None:
    make_run(8, 8)
    runs, view = TopReader(None).read(), View()
    assert len(view.update(runs)) == 1 + 8
    view.move(view.update(runs), 3)
    view.toggle()
    assert len(view.update(runs)) == 1 + 8 + 8
    view.move(view.update(runs), 99)
    lines = draw(runs, view, 80, 12)
    assert len(lines) <= 12
    assert any(line.startswith(">   + node 7 node7") for line in lines)


def test_keys_start_commands_and_those_that_end_a_run_ask_first(small: list[TopRun]) -> None:
    view = View()
    rows = view.update(small)
    assert press(view, small, "l") == ["logs", "llm-aaaa", "--follow"]
    assert press(view, small, "s") == ["stacks", "llm-aaaa", "--rank", "1"], "one without progress for long"
    for _ in range(3):
        assert press(view, small, "down") == []
    assert view.cursor == Key("llm-aaaa", 0, 1)
    assert press(view, small, "l") == ["logs", "llm-aaaa", "--follow", "--rank", "1"]
    assert press(view, small, "s") == ["stacks", "llm-aaaa", "--rank", "1"]
    for key, command in (("S", "stop"), ("C", "cancel")):
        assert press(view, small, key) == [] and view.asks == command
        assert "y or n" in draw(small, view, 80, 24)[-1]
        assert press(view, small, "") == [] and view.asks == command
        assert press(view, small, OTHER) == [] and not view.asks
        assert press(view, small, key) == []
        assert press(view, small, "y") == [command, "llm-aaaa"]
    press(view, small, "up")
    press(view, small, "k")
    assert press(view, small, "enter") == [] and len(make_rows(small, view.closed)) == len(rows) - 2
    assert press(View(), [], "S") == []


def test_keys_that_come_at_once_are_all_taken() -> None:
    keys = split_keys(b"\x1b[A\x1bOBjq\r\x1b[15~\xc3\xa9 \t\x1b")
    assert keys == ["up", "down", "j", "q", "enter", OTHER, OTHER, " ", OTHER, OTHER]


def test_a_key_without_a_name_does_not_quit_and_a_closed_terminal_does(monkeypatch: pytest.MonkeyPatch) -> None:
    reader, writer = os.pipe()
    with open(reader) as stdin, open(writer, "wb", buffering=0) as terminal:
        monkeypatch.setattr("sys.stdin", stdin)
        keyboard = Keyboard()
        for page_down_or_other in (b"\x1b[6~", b"\t", b"\x7f", b"\x1b", "ä".encode()):
            terminal.write(page_down_or_other)
            assert keyboard.wait(0) == OTHER
        assert keyboard.wait(0) == ""
        terminal.close()
        assert keyboard.wait(0) == "q"


def test_a_refresh_for_64_ranks_takes_a_fiftieth_of_a_core() -> None:
    make_run(8, 8)
    reader, view = TopReader(None), View()
    draw(reader.read(), view, 120, 50)
    done_within(0.02 * EVERY_S, lambda: draw(reader.read(), view, 120, 50))


class Screen:
    """The command on a terminal of its own, as a user sees and answers it."""

    def __init__(self, *words: str, columns: int) -> None:
        self.file, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        env = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
        argv = [COMMAND, "top", *words]
        self.process = subprocess.Popen(
            argv, stdin=theirs, stdout=theirs, stderr=theirs, env=env, start_new_session=True
        )
        os.close(theirs)
        self.printed = ""

    def wait(self, text: str) -> str:
        """Wait until the text is on the newest screen, and return that screen."""
        deadline = time.monotonic() + 60
        while text not in self.newest():
            assert time.monotonic() < deadline, f"{text!r} is not in {self.newest()!r}"
            if select.select([self.file], [], [], 1.0)[0]:
                self.printed += os.read(self.file, 65536).decode()
        return self.newest()

    def newest(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.printed.rpartition("\x1b[H")[2])

    def press(self, keys: str) -> None:
        self.printed = ""
        os.write(self.file, keys.encode())


@pytest.mark.parametrize("columns", [80, 40])
def test_the_live_screen_follows_keys_and_leaves_the_terminal_as_it_was(columns: int) -> None:
    make_run(1, 2)
    screen = Screen(columns=columns)
    shown = screen.wait("quit")
    assert "> - llm-aaaa" in shown
    assert all(width(line.rstrip()) <= columns for line in shown.split("\r\n"))
    screen.press("\x1b[B\x1b[BS")
    assert ">     rank 0" in screen.wait("stop llm-aaaa?")
    screen.press("n")
    screen.wait("quit")
    screen.press("q")
    assert screen.process.wait(timeout=30) == 0
    rest = screen.printed + os.read(screen.file, 65536).decode()
    assert "\x1b[?1049l" in rest and "\x1b[?25h" in rest, "the screen before it, and the cursor"
    os.close(screen.file)


def test_in_a_pipe_it_prints_once() -> None:
    make_run(1, 2)
    done = subprocess.run([COMMAND, "top"], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[0].split()[:2] == ["RUN", "DOING"]
    assert "rank 1" in done.stdout and "\x1b" not in done.stdout and done.stderr == ""


def test_without_runs_it_reports_that() -> None:
    done = subprocess.run([COMMAND, "top"], capture_output=True, text=True, timeout=60, check=True)
    assert (done.stdout, done.stderr) == ("", "there are no runs yet\n")
