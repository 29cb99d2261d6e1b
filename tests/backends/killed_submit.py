"""Submits that die before a chosen one of their steps, as kill -9 or a power cut would have it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from fsdpctl.contract import Env
from fsdpctl.runs.store import list_runs
from tests.backends.harness import Run

SUBMITS = """
import os, signal, sys
from fsdpctl.cli import app
words = sys.argv[1:]
def submit(*more):
    sys.argv = ["fsdpctl", "submit", *words, *more]
    try:
        app.main()
    except SystemExit as leave:
        return leave.code or 0
    return 0
def die_before(point):
    steps = 0
    def watch(event, arguments):
        nonlocal steps
        if event in ("os.rename", "os.mkdir", "os.link", "subprocess.Popen"):
            steps += 1
            if steps == point:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
assert submit("--dry-run") == 0  # all is imported once, and each submit only forks
for line in sys.stdin:
    point, home = line.rstrip("\\n").split(" ", 1)
    if not (pid := os.fork()):
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.environ["FSDPCTL_HOME"] = home
        die_before(int(point))
        os._exit(submit())
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), file=answers, flush=True)
"""


Command = Callable[..., list[str]]
"""argv, cwd -> the words that run it, on another host perhaps"""


def kill_at_each_step(
    *words: str, cwd: Path, homes: Path, monkeypatch: pytest.MonkeyPatch, command: Command = lambda *argv, cwd: [*argv]
) -> Iterator[Run | None]:
    """Submit, and die before the first step that changes something, before the second, ...; the last submit lives.

    Gives the run that there is afterwards, if any. Each has a home of its own: a supervisor may still write into the
    one before.
    """
    argv = command(sys.executable, "-P", "-c", SUBMITS, *words, cwd=cwd)
    with subprocess.Popen(argv, cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as submits:
        assert submits.stdin is not None and submits.stdout is not None
        for point in count(1):
            home = homes / f"home {point}"
            monkeypatch.setenv(Env.HOME, str(home))
            print(point, home, file=submits.stdin, flush=True)
            code = int(submits.stdout.readline())
            assert code in (0, -signal.SIGKILL), f"killed at step {point}"
            yield _find_run(home, cwd)
            if code == 0:
                break


def _find_run(home: Path, cwd: Path) -> Run | None:
    """The one run that `ls` shows; any other would be a hidden one."""
    listed = list_runs()
    directories = [path.name for path in (home / "runs").glob("[!.]*")]
    assert [run.run_id for run in listed] == directories and len(listed) <= 1
    return Run(listed[0].run_id, listed[0].paths, cwd) if listed else None
