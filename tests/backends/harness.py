"""Hands and eyes of the launcher tests: the real CLI as a process, the real process table."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Any

from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.os import processes
from fsdpctl.runs.evidence import RunFacts
from tests.backends.cli_server import CliServer

COMMAND = Path(sys.executable).with_name("fsdpctl")
"""The installed command: `python -m fsdpctl` would look for a package in the current directory first."""


@dataclass(frozen=True)
class Where:
    """Where a command runs that is forked from the server of commands: a process whose namespaces it enters, if any."""

    init: int = 0
    env: Mapping[str, str] = field(default_factory=dict)


FORKED = {COMMAND: Where()}

ALIVE = {"QUEUED", "RUNNING", "RESTARTING"}
ASK_EVERY_S = 15.0
"""Each `fsdpctl status` takes a quarter of a second of processor time from the run on a busy machine."""


def fsdpctl(
    *words: str,
    cwd: Path,
    expect: int | None = 0,
    timeout: float = 120,
    env: Mapping[str, str] | None = None,
    stdin: str = "",
) -> subprocess.CompletedProcess[str]:
    """Run the CLI as a user would, with `env` added to the environment; check its exit code unless `expect` is None."""
    given, argv = {**os.environ, **(env or {})}, [str(COMMAND), *words]
    if (where := FORKED.get(COMMAND)) is not None:
        done = _cli_server().run(argv, cwd, {**given, **where.env}, stdin, timeout, where.init)
    else:
        done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=timeout, env=given, input=stdin)
    if expect is not None:
        assert done.returncode == expect, f"exit {done.returncode}, wanted {expect}\n{done.stdout}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    return done


_starting = Lock()


def _cli_server() -> CliServer:
    """Return the one of this process: tests call from several threads, and a second one would end with its commands."""
    with _starting:
        return _start_cli_server()


@cache
def _start_cli_server() -> CliServer:
    return CliServer()


def wait_for(condition: Callable[[], Any], limit_s: float, what: str | Callable[[], str]) -> Any:
    """Wait until `condition` gives something true and return it; `what` may be a description to make at the end.

    It rests three times as long as it has asked: a question that takes a core must not slow down its own answer.
    """
    deadline = time.monotonic() + limit_s
    while (asked := time.monotonic()) < deadline:
        if found := condition():
            return found
        time.sleep(max(0.03, 3 * (time.monotonic() - asked)))
    raise AssertionError(f"not within {limit_s} s: {what() if callable(what) else what}")


@dataclass
class Run:
    """One submitted run."""

    run_id: str
    paths: RunPaths
    cwd: Path

    @classmethod
    def of(cls, row: dict[str, Any], cwd: Path) -> Run:
        """Return the run of a row of `--json` output."""
        return cls(row["run_id"], RunPaths.of(row["run_dir"]), cwd)

    def status(self) -> dict[str, Any]:
        return dict(json.loads(fsdpctl("status", "--json", self.run_id, cwd=self.cwd).stdout))

    def explain(self) -> dict[str, Any]:
        return dict(json.loads(fsdpctl("explain", "--json", self.run_id, cwd=self.cwd).stdout))

    def initiating(self) -> tuple[str, list[tuple[int | None, str]]]:
        """The category of the end, and the (rank, host) that are named as its cause; a whole node has no rank."""
        found = self.explain()
        first = [(rank["rank"], rank["host"]) for rank in found["ranks"] if rank["role"] == "initiating"]
        return found["diagnosis"]["category"], first

    def wait_ended(self, limit_s: float = 240) -> dict[str, Any]:
        """Ask the CLI once the last attempt has a verdict, and now and then before: a run may end without one."""
        asked = time.monotonic()

        def ended() -> dict[str, Any] | None:
            nonlocal asked
            if not RunFacts(self.paths).has_ended and time.monotonic() - asked < ASK_EVERY_S:
                return None
            asked = time.monotonic()
            status = self.status()
            return None if status["state"] in ALIVE else status

        return dict(wait_for(ended, limit_s, lambda: f"{self.run_id} to end; {self.describe()}"))

    def wait_step(self, step: int, limit_s: float = 180) -> None:
        wait_for(lambda: len(self.metrics()) >= step, limit_s, lambda: f"step {step}; {self.describe()}")

    def wait_attempt_steps(self, attempt: int, steps: int, limit_s: float = 180) -> None:
        """Wait until an attempt has written this many steps of its own."""
        wait_for(
            lambda: [line["attempt"] for line in self.metrics()].count(attempt) >= steps,
            limit_s,
            lambda: f"{steps} steps of attempt {attempt}; {self.describe()}",
        )

    def metrics(self) -> list[dict[str, Any]]:
        if not self.paths.metrics.exists():
            return []
        return [json.loads(line) for line in self.paths.metrics.read_text().splitlines() if line.endswith("}")]

    def curve(self) -> list[tuple[int, str, str]]:
        """What two runs must share bit for bit."""
        return [(line["step"], line["loss_hex"], line["samples"]) for line in self.metrics()]

    def checkpoints(self) -> list[str]:
        """Whole ones, newest first: a cut one has more in its name."""
        return sorted((path.name for path in self.paths.checkpoints.glob("step-????????")), reverse=True)

    def pids(self, node_rank: int | None = None) -> list[int]:
        return processes.find(processes.Tag(self.run_id, node_rank))

    def find(self, node_rank: int | None, words: str) -> list[int]:
        """Processes of a node whose command line holds `words`."""
        return [pid for pid in self.pids(node_rank) if words in command_line(pid)]

    def assert_nothing_left(self, limit_s: float = 10) -> None:
        wait_for(lambda: not self.pids(), limit_s, lambda: f"no process left, but {self.describe()}")

    def describe(self) -> str:
        status = fsdpctl("status", self.run_id, "--json", cwd=self.cwd, expect=None).stdout
        living = "\n".join(f"  {pid} {command_line(pid)}" for pid in self.pids())
        logs = [*self.paths.root.glob("attempts/*/node-*/*.log"), *self.paths.root.glob("*.log")]
        tails = "\n".join(f"--- {log}\n{log.read_text(errors='replace')[-1500:]}" for log in logs)
        return f"{status}\nprocesses:\n{living}\n{tails}"


def submit(*words: str, cwd: Path, timeout: float = 60) -> Run:
    return Run.of(json.loads(fsdpctl("submit", *words, "--json", cwd=cwd, timeout=timeout).stdout), cwd)


def command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return ""


def find_variable(name: str, value: str) -> list[int]:
    """Processes that have exactly this variable in their environment."""
    wanted = f"{name}={value}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            if wanted in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found


def kill(pids: list[int], number: int = signal.SIGKILL) -> None:
    """Signal processes, of which later ones may end with earlier ones."""
    assert pids, "nothing to kill"
    first, *others = pids
    os.kill(first, number)
    for pid in others:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_supervisor(run: Run) -> None:
    kill(run.find(None, "fsdpctl.backends.detached"))
    wait_for(lambda: run.status()["phase"] == "unsupervised", 20, run.describe)


@contextmanager
def paused(pids: list[int]) -> Iterator[None]:
    """Processes that do nothing for a while."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)
