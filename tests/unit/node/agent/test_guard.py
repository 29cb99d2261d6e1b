"""The guard as a real process: an agent-like parent dies, and its node is swept."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

from fsdpctl.commands.environment import tag_env
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.os import processes
from fsdpctl.node.os.processes import Tag
from tests.backends.harness import wait_for

PARENT = """
import os, subprocess, sys, time
from pathlib import Path
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.agent.guard import Guard
from fsdpctl.node.os.processes import Tag
from fsdpctl.node.os.resources import ResourceWatch
guard = Guard(Tag("run-g", 0), NodePaths(Path(sys.argv[1])), ResourceWatch.begin())
child = subprocess.Popen(["sleep", "600"], start_new_session=True)
print(guard.pid, child.pid, flush=True)
fork = os.fork
def refuse():
    raise BlockingIOError(11, "Resource temporarily unavailable")
for line in sys.stdin:
    os.fork = refuse if line == "at the limit of processes\\n" else fork
    guard.check()
    print(guard.pid, flush=True)
child.kill()
guard.dismiss()
"""


def start_parent(node_dir: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(node_dir)],
        env={**os.environ, **tag_env("run-g", 1, 0)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_the_guard_ends_the_node_of_a_killed_agent(tmp_path: Path) -> None:
    with start_parent(tmp_path) as parent:
        assert parent.stdout is not None
        parent.stdout.readline()
        parent.kill()
        wait_for(lambda: not processes.find(Tag("run-g")), 10, "the sweep")
    end = find_json(NodeEnd, NodePaths(tmp_path).end)
    assert end is not None
    assert (end.code, end.reason) == (1, "the node agent was killed")
    assert end.resources is not None


def test_a_killed_guard_is_replaced_and_a_dismissed_one_writes_nothing(tmp_path: Path) -> None:
    with start_parent(tmp_path) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        guard = int(parent.stdout.readline().split()[0])
        os.kill(guard, signal.SIGKILL)
        wait_for(lambda: processes.start_ticks(guard) is None, 10, "the guard's death")
        parent.stdin.write("check\n")
        parent.stdin.flush()
        assert int(parent.stdout.readline()) != guard
        parent.stdin.close()
        assert parent.wait(timeout=10) == 0
    wait_for(lambda: not processes.find(Tag("run-g")), 10, "all processes to exit")
    assert find_json(NodeEnd, NodePaths(tmp_path).end) is None


def test_a_guard_that_cannot_be_replaced_now_is_replaced_later(tmp_path: Path) -> None:
    with start_parent(tmp_path) as parent:
        assert parent.stdout is not None and parent.stdin is not None
        guard = int(parent.stdout.readline().split()[0])
        os.kill(guard, signal.SIGKILL)
        wait_for(lambda: processes.start_ticks(guard) is None, 10, "the guard's death")
        pids = []
        for line in ("at the limit of processes", "at the limit of processes", "check", "check"):
            parent.stdin.write(f"{line}\n")
            parent.stdin.flush()
            pids.append(int(parent.stdout.readline()))
        assert pids[:2] == [guard, guard] and pids[2] == pids[3] != guard
        assert processes.start_ticks(pids[3]) is not None
        parent.stdin.close()
        assert parent.wait(timeout=10) == 0
