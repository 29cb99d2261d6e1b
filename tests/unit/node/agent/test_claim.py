"""A node has one agent in an attempt, even if several are started, at once or later."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from fsdpctl.contract.codec import read_json, write_json
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.records import ProcessIdentity
from fsdpctl.node.agent.claim import claim_node
from fsdpctl.node.os import processes

CLAIM = """
import os, sys
from pathlib import Path
from fsdpctl.contract.paths import NodePaths
from fsdpctl.node.agent.claim import claim_node
print(os.getpid(), flush=True)
sys.stdin.read(1)
print(claim_node(NodePaths(Path(sys.argv[1]))))
"""


def test_of_many_agents_at_once_one_claims_the_node(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", CLAIM, str(tmp_path)]
    agents = [subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    pids = [int(agent.stdout.readline()) for agent in agents if agent.stdout is not None]
    with ThreadPoolExecutor() as pool:
        claims = [output for output, _ in pool.map(lambda agent: agent.communicate("."), agents)]
    assert sorted(claims) == ["False\n", "False\n", "False\n", "True\n"]
    agent = read_json(ProcessIdentity, NodePaths(tmp_path).agent)
    assert agent.pid == pids[claims.index("True\n")]
    assert list(tmp_path.iterdir()) == [NodePaths(tmp_path).agent]


def test_an_agent_to_which_nfs_reports_its_own_file_has_claimed_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server carries out link(2), its answer is lost, and the repeated request finds the file."""
    link = os.link

    def link_twice(source: Path, target: Path) -> None:
        link(source, target)
        link(source, target)

    monkeypatch.setattr(os, "link", link_twice)
    assert claim_node(NodePaths(tmp_path))


def test_a_second_agent_of_an_attempt_ends_at_once_and_changes_nothing(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    node = run.attempt(1).node(0)
    node.root.mkdir(parents=True)
    write_json(node.agent, processes.identify(os.getpid()))
    before = node.agent.read_bytes()
    argv = [sys.executable, "-m", "fsdpctl.node.agent", f"--run-dir={run.root}", "--attempt=1", "--node-rank=0"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    assert node.agent.read_bytes() == before
    assert not node.end.exists() and not run.attempt(1).abort.exists()
