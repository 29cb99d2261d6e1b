"""The processes that send the metrics of a run to its trackers, beside the ranks of node 0."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial

from fsdpctl.contract import GOOD_ENDS, NodeExit
from fsdpctl.contract.files import open_log
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.agent.start_companion import start_companion
from fsdpctl.node.os import processes

FINISH_S = 15.0
"""Longest time to send what is left at the end of the last attempt."""
LEAVE_S = 5.0
"""The same where the attempt ends before: nodes may be taken away, and the next attempt sends the rest."""
POLL_S = 0.1


class Trackers:
    """One process for each tracker. None of them can delay or fail the ranks."""

    def __init__(self, plan: LaunchPlan, paths: NodePaths, attempt: int, env: Mapping[str, str]) -> None:
        """Start them on the head; `env` is that of the ranks, with secrets."""
        names = plan.report_to if paths.node_rank == 0 else ()
        started = [start_companion(name, partial(_start, name, plan, paths, attempt, env)) for name in names]
        self._processes = [process for process in started if process is not None]

    def pids(self) -> list[int]:
        """Return the pids of the processes, and of those that they have started."""
        alive = [process.pid for process in self._processes if process.poll() is None]
        return [*alive, *(below for pid in alive for below in processes.descendants(pid))]

    def close(self, code: int, beat: Callable[[], object]) -> None:
        """Let them send what is left; `code` is that of the node's exit record. `beat` is called meanwhile."""
        word = b"finished" if code == NodeExit.FINISHED else b"stopped" if code in GOOD_ENDS else b"failed"
        for process in self._processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write(word)
            process.stdin.close()
        deadline = time.monotonic() + (FINISH_S if code == NodeExit.FINISHED else LEAVE_S)
        while any(process.poll() is None for process in self._processes) and time.monotonic() < deadline:
            beat()
            time.sleep(POLL_S)


def _start(
    name: str, plan: LaunchPlan, paths: NodePaths, attempt: int, env: Mapping[str, str]
) -> subprocess.Popen[bytes]:
    agent = os.getpid()
    with open(open_log(paths.tracker_log(name)), "ab") as log:
        return subprocess.Popen(
            [plan.python, "-m", "fsdpctl.trackers", name, f"--run-dir={plan.run_dir}", f"--attempt={attempt}"],
            env=env,
            cwd=RunPaths.of(plan.run_dir).root,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            bufsize=0,
            preexec_fn=partial(processes.die_with_parent, lambda parent: parent == agent),
        )
