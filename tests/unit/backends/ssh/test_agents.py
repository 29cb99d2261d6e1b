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
from fsdpctl.backends.fanout import HostError
from fsdpctl.backends.ssh.agents import SshAgents, remote_argv
from fsdpctl.backends.ssh.transport.answer import explain
from fsdpctl.backends.ssh.transport.ssh_config import Target
from fsdpctl.contract.codec import encode
from fsdpctl.contract.paths import RunPaths
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


FACTS = NodeFacts("x", "3.12", "2.13", 0.0)


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
