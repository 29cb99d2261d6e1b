"""A node that must have its own disk checks that no other node writes there. A start may be repeated."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.os import processes
from fsdpctl.node.queries import agent_control
from fsdpctl.node.queries.agent_control import StartResult, find_neighbour
from fsdpctl.specs.load import parse_job, parse_profile

PLAN = build_plan(
    parse_profile("name: p\nbackend: local\n", "p"),
    parse_job("name: j\nnodes: 2\nentrypoint: {script: s.py}\n", "j"),
    SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ()),
)


@pytest.mark.parametrize(
    ("left_there", "neighbour"),
    [([], 1), (["agent.json"], 1), (["ready.json"], None), (["agent.json", "ready.json"], 1)],
)
def test_a_neighbour_on_the_same_disk_is_found(tmp_path: Path, left_there: list[str], neighbour: int | None) -> None:
    """Copy only `ready.json` of a node on another disk."""
    run = RunPaths(tmp_path)
    for node in (0, 1):
        run.attempt(1).node(node).root.mkdir(parents=True)
    for name in left_there:
        (run.attempt(1).node(1).root / name).touch()
    write_json(run.plan, PLAN)
    assert find_neighbour(run, 1, 0) is None, "a shared disk"
    write_json(run.plan, replace(PLAN, shared_disk=False))
    assert find_neighbour(run, 1, 0) == neighbour


def test_a_start_that_another_one_overtakes_returns_its_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second agent ends at once, just after the first has claimed the node."""
    run = RunPaths(tmp_path)
    run.attempt(1).root.mkdir(parents=True)
    write_json(run.plan, PLAN)
    node = run.attempt(1).node(0)
    first = processes.identify(os.getpid())

    def ended(self: subprocess.Popen[bytes]) -> int:
        write_json(node.agent, first)
        return 0

    monkeypatch.setattr(agent_control, "agent_argv", lambda *words: ["true"])
    monkeypatch.setattr(subprocess.Popen, "poll", ended)
    assert agent_control.start(run, 1, 0) == StartResult(first)
