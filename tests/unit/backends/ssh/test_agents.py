"""The command of a request to a host, and the explanation of an answer that is not JSON."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError, HostResult
from fsdpctl.backends.ssh.agents import SshAgents, find_at_fault, find_failed_node, find_late, remote_argv
from fsdpctl.backends.ssh.transport.answer import NoRunDirectoryError, explain
from fsdpctl.backends.ssh.transport.ssh_config import Target
from fsdpctl.contract import NodeExit
from fsdpctl.contract.codec import encode, write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.doctor.payload import last_line
from fsdpctl.errors import LaunchError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.queries.agent_control import NodeFacts
from fsdpctl.specs.load import parse_job, parse_profile

PLAN = build_plan(
    parse_profile("name: p\nbackend: ssh\nnodes: [{id: a, address: 10.0.0.1}]\npython: /opt/py\n", "p"),
    parse_job("name: j\nentrypoint: {script: s.py}\n", "j"),
    SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ()),
)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (NodeAnswer(1, "", "x\n/opt/py: No module named fsdpctl\n"), "/runs/j-abcd is not there"),
        (NodeAnswer(1, "", "No module named 'fsdpctl.node'"), "/runs/j-abcd is not there"),
        (NodeAnswer(127, "", "bash: /opt/py: No such file"), "python does not exist there: /opt/py"),
        (NodeAnswer(3, "", "first\nlast"), "exit code 3: last"),
        (NodeAnswer(1, "", ""), "exit code 1: no output"),
    ],
)
def test_an_answer_that_is_not_json_is_explained(answer: NodeAnswer, reason: str) -> None:
    assert reason in explain(answer, PLAN)


@pytest.mark.parametrize(("code", "stdout"), [(127, ""), (3, "first\nlast"), (0, " \n")])
def test_doctor_gives_the_same_explanation(code: int, stdout: str) -> None:
    with pytest.raises(HostError) as caught:
        last_line(NodeAnswer(code, stdout, ""), PLAN.python)
    assert str(caught.value) == explain(NodeAnswer(code, stdout, ""), PLAN)
    assert last_line(NodeAnswer(0, "noise\n{}\n", "a warning"), PLAN.python) == "{}"


def test_setup_lines_come_first_and_the_umask_before_them() -> None:
    plan = replace(PLAN, setup=("export X='a b'", "umask"), python="echo")
    argv = remote_argv(plan, RunPaths.of("/runs/j-abcd"), "check", 2, 0)
    printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.splitlines()
    assert printed == [
        "0077",
        "-m fsdpctl.node.queries.agent_control check --run-dir=/runs/j-abcd --attempt=2 --node-rank=0",
    ]


def test_a_node_that_ended_badly_ends_the_others(tmp_path: Path) -> None:
    attempt = RunPaths(tmp_path).attempt(1)
    for rank, end in enumerate([None, NodeEnd(NodeExit.STOPPED, "stopped"), NodeEnd(1, "the node agent was killed")]):
        attempt.node(rank).root.mkdir(parents=True)
        assert find_failed_node(attempt) is None
        if end is not None:
            write_json(attempt.node(rank).end, end)
    assert find_failed_node(attempt) == "node 2: the node agent was killed"


def test_a_missing_run_directory_is_waited_for_where_it_may_come() -> None:
    there = HostResult(0, NodeFacts("a", "3.12", "2.13", 0.0))
    mounted_late = HostResult(1, NodeFacts("b", "3.12", "2.13", 0.0, "no plan", has_run_dir=False))
    without_code = HostResult[int, NodeFacts](2, error=NoRunDirectoryError("c: /runs/j-abcd is not there"))
    down = HostResult[int, NodeFacts](3, error=HostError("d: no answer"))
    assert find_late({0: there, 1: mounted_late, 2: without_code, 3: down}, attempt=1) == [1, 2]
    assert find_late({1: mounted_late, 2: without_code}, attempt=1) == [], "most likely a wrong runs_root"
    assert find_late({1: mounted_late, 2: without_code}, attempt=2) == [1, 2], "it was there before"
    assert find_late({0: there, 3: down}, attempt=2) == []


FACTS = NodeFacts("x", "3.12", "2.13", 0.0)
SETUP_FAILED = HostError("b: exit code 1: Unable to locate a modulefile for 'cuda/13'")
CUT_OFF = HostError("b: no answer within 60 s", passing=True)


@pytest.mark.parametrize(
    ("errors", "at_fault"),
    [
        ([None, SETUP_FAILED], {1: str(SETUP_FAILED)}),
        ([SETUP_FAILED], {0: str(SETUP_FAILED)}),
        ([None, CUT_OFF], {}),
        ([SETUP_FAILED, SETUP_FAILED], {}),
        ([None, None], {}),
    ],
)
def test_a_host_is_at_fault_for_an_answer_that_is_none_but_not_for_the_network(
    errors: list[HostError | None], at_fault: dict[int, str]
) -> None:
    results = [HostResult(rank, None if error else FACTS, error) for rank, error in enumerate(errors)]
    assert find_at_fault(results) == at_fault


class HostLink:
    """A connection to a host that answers; a line of `setup` fails on b."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def open(self) -> None: ...

    def is_answering(self, timeout_s: float) -> bool:
        return True

    def run(self, argv: Sequence[str], timeout_s: float) -> NodeAnswer:
        if self.target.name == "b":
            return NodeAnswer(1, "", "Unable to locate a modulefile for 'cuda/13'\n")
        return NodeAnswer(0, json.dumps(encode(replace(FACTS, time=time.time()))) + "\n", "")


def test_a_spare_replaces_a_host_where_a_line_of_setup_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b, c, d = (f"{{id: {name}, address: {name}}}" for name in "abcd")
    profile = f"name: p\nbackend: ssh\nnodes: [{a}, {b}]\nspares: [{c}, {d}]\nsetup: [module load cuda/13]\n"
    plan = build_plan(
        parse_profile(profile, "p"),
        parse_job("name: j\nnodes: 2\nentrypoint: {script: s.py}\n", "j"),
        SubmitHost("j-abcd", str(tmp_path), "/here", "python3", ()),
    )
    liveness = SimpleNamespace(unanswered_s=lambda: {0: 0.0, 1: 0.0}, replace=lambda *_: None)
    monkeypatch.setattr("fsdpctl.backends.ssh.hosts.Link", HostLink)
    monkeypatch.setattr("fsdpctl.backends.ssh.agents.Liveness", lambda *_: liveness)
    run = RunPaths(tmp_path)
    run.attempt(1).root.mkdir(parents=True)
    agents = SshAgents(run, plan)
    with pytest.raises(LaunchError, match=r"b: exit code 1: Unable to locate a modulefile"):
        agents.start(run.attempt(1))
    for _ in range(2):  # asked again and again while another host is waited for
        assert agents.prepare(run.attempt(1)) == []
        assert [node.id for node in agents.plan.nodes] == ["a", "c"]
