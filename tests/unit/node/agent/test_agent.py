"""How an agent ends: as a process of its own, because it sweeps all below it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.commands.environment import tag_env
from fsdpctl.contract.codec import read_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.os.processes import Tag, find

PROLOGUE = """
import os, signal, subprocess, sys, time
from fsdpctl.contract import Cause
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.agent import agent as module
from fsdpctl.specs.load import parse_job, parse_profile
run = RunPaths.of(sys.argv[1])
plan = build_plan(
    parse_profile("name: p\\nbackend: local\\n", "p"),
    parse_job("name: j\\nentrypoint: {script: s.py}\\n", "j"),
    SubmitHost(run.root.name, str(run.root), "/here", "python3", ()),
)
agent = module.Agent(plan, run.attempt(1), 0)
"""


@pytest.fixture
def attempt(tmp_path: Path) -> AttemptPaths:
    attempt = RunPaths(tmp_path / f"j-{os.getpid()}").attempt(1)
    attempt.node(0).root.mkdir(parents=True)
    return attempt


def run_agent(attempt: AttemptPaths, script: str) -> NodeEnd:
    """Run an agent whose ranks `script` replaces, and return its exit record."""
    argv = [sys.executable, "-c", PROLOGUE + script + "\nagent.run()", str(attempt.run_dir)]
    env = {**os.environ, **tag_env(attempt.run_dir.name, 1, 0)}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert find(Tag(attempt.run_dir.name)) == []
    return read_json(NodeEnd, attempt.node(0).end)


def test_an_end_is_recorded_though_the_file_server_fails_for_a_moment(attempt: AttemptPaths) -> None:
    end = run_agent(
        attempt,
        """
errors, write = [OSError(116, "Stale file handle"), OSError(5, "Input/output error")], module.write_json
def write_late(*words):
    if errors:
        raise errors.pop()
    write(*words)
module.write_json = write_late
agent._run_ranks = lambda: NodeEnd(0, "finished", cause=Cause.FINISHED)
""",
    )
    assert (end.code, end.reason) == (0, "finished")


@pytest.mark.parametrize("when", ["before", "during"])
def test_a_guard_that_is_killed_at_the_last_sweep_does_not_spoil_a_good_end(attempt: AttemptPaths, when: str) -> None:
    """A new one, which the sweep would find each time, counted as a process that could not be killed."""
    end = run_agent(
        attempt,
        f"""
def kill_guard():
    agent.log_watch.look = lambda: None
    os.kill(agent.guard.pid, signal.SIGKILL)
    while module.processes.start_ticks(agent.guard.pid) is not None:
        time.sleep(0.001)
def end_ranks():
    subprocess.Popen(["sleep", "60"])
    if {when == "before"}:
        kill_guard()
    else:
        agent.log_watch.look = kill_guard
    return NodeEnd(0, "finished", cause=Cause.FINISHED)
agent._run_ranks = end_ranks
""",
    )
    assert (end.code, end.reason) == (0, "finished")
