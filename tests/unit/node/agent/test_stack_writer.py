"""Stacks of a real process of several busy threads."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from fsdpctl.contract.stack_dump import find_main, parse_stacks
from fsdpctl.node.agent.stack_writer import format_stacks
from fsdpctl.node.os.signals import DUMP_SIGNAL

BUSY = """
import pathlib, sys, threading
from fsdpctl.node.agent.stack_writer import StackWriter
StackWriter(pathlib.Path(sys.argv[1])).start()
sys.setswitchinterval(1e-4)
def generate(n):
    if n:
        yield from generate(n - 1)
    yield n
def work():
    while True:
        list(generate(20))
        exec("def f(a):\\n return a + 1\\nf(1)", {})
for number in range(3):
    threading.Thread(target=work, daemon=True, name=f"busy-{number}").start()
print("up", flush=True)
work()
"""
DUMPS = 300
"""With faulthandler's own handler, processes like this one crashed after 56 (Python 3.13) to 1071 (3.11)."""


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    words = [sys.executable, "-c", BUSY, str(tmp_path / "stacks.txt")]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        yield process
        process.kill()


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_a_busy_process_survives_many_dumps_of_all_its_threads(busy: subprocess.Popen[str], tmp_path: Path) -> None:
    path = tmp_path / "stacks.txt"
    for _ in range(DUMPS):
        path.write_text("")
        os.kill(busy.pid, DUMP_SIGNAL)
        while not find_main(parse_stacks(path.read_text())):
            assert busy.poll() is None
            time.sleep(0.002)
    threads = parse_stacks(path.read_text())
    assert threads[0].frames[-1].function == "<module>"
    assert sorted(thread.name for thread in threads[1:]) == ["busy-0", "busy-1", "busy-2"], "and not the one that wrote"
    assert all("run" in [frame.function for frame in thread.frames] for thread in threads[1:])


class Batch:
    """Something large that a function works on."""


def test_what_a_thread_worked_on_is_freed_without_a_garbage_collection() -> None:
    """As in the trainer, which collects garbage only each hundred steps: stacks kept a step's gradients until then."""
    looked = threading.Event()

    def look() -> None:
        format_stacks()
        looked.set()

    def step() -> weakref.ref[Batch]:
        batch = Batch()
        threading.Thread(target=look).start()
        assert looked.wait(timeout=60)
        return weakref.ref(batch)

    gc.disable()
    try:
        assert step()() is None
    finally:
        gc.enable()
