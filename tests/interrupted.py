"""Runs of one example in a hold of this machine: its imports are done once a node, for all runs and attempts."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fsdpctl.commands.torchrun import TORCHRUN
from tests.backends.harness import Run, command_line, fsdpctl, submit, wait_for

Result = TypeVar("Result")
RANKS = 2
_NAME = "examples"


@dataclass(frozen=True)
class Hold:
    """Two nodes for the job of an example's directory."""

    directory: Path

    def submit(self, override: str, *, nodes: int) -> Run:
        """Submit with two ranks."""
        words = ("--nodes", str(nodes), "--procs-per-node", str(RANKS // nodes), "--set", override)
        return submit("./job.yaml", "--in", _NAME, *words, cwd=self.directory)

    def resume(self, run: Run) -> None:
        fsdpctl("resume", run.run_id, "--in", _NAME, cwd=self.directory)


@contextmanager
def in_hold(directory: Path) -> Iterator[Hold]:
    """Hold the nodes, and release them once no run is on them."""
    fsdpctl("hold", "-p", "local", "--nodes", "2", "--name", _NAME, "--idle", "5m", cwd=directory)
    yield Hold(directory)
    wait_for(lambda: " idle " in fsdpctl("ls", cwd=directory).stderr, 60, "the hold to be idle")
    fsdpctl("release", _NAME, cwd=directory)


def kill_at_step(run: Run, script: str, step: int) -> None:
    """Kill a rank of the second attempt once a step is done, or at the next one."""
    os.kill(_halt_at_step(run, script, step), signal.SIGKILL)


def stop_at_step(run: Run, script: str, step: int, stop: Callable[[], Result]) -> Result:
    """Let `stop` end the first attempt once a step is done, or at the next one, and return its result."""
    rank = _halt_at_step(run, script, step)
    with ThreadPoolExecutor(1) as pool:
        stopped = pool.submit(stop)
        wait_for(lambda: run.paths.attempt(1).stop.exists() or stopped.done(), 60, run.describe)
        os.kill(rank, signal.SIGCONT)
        return stopped.result()


def _halt_at_step(run: Run, script: str, step: int) -> int:
    """Halt the last rank of the second node, for which its peers wait, once a step is done.

    It is halted at each look: steps take milliseconds, and a look may take seconds. So nothing rests before the first
    one either: a forked rank has done all of its steps a second later.
    """
    deadline = time.monotonic() + 240
    while not (found := [pid for pid in run.find(1, script) if TORCHRUN not in command_line(pid)]):
        assert time.monotonic() < deadline, run.describe()
        time.sleep(0.02)
    os.setpriority(os.PRIO_PROCESS, found[0], 19)  # or a busy host lets it do all of its steps before the next look
    while not _has_done(run, found[0], step):
        assert time.monotonic() < deadline, run.describe()
        time.sleep(0.02)
    return found[0]


def _has_done(run: Run, rank: int, step: int) -> bool:
    """Return whether a step is done; then the rank stays halted."""
    os.kill(rank, signal.SIGSTOP)
    if any(line["step"] >= step for line in run.metrics()):
        return True
    os.kill(rank, signal.SIGCONT)
    return False


def losses(run: Run) -> dict[int, float]:
    """Return the loss by step; of a step that was done again after a kill, the last."""
    return {line["step"]: line["loss"] for line in run.metrics()}
