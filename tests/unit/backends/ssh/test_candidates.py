"""Spares come before unused nodes, and a host that failed stays away for a while."""

from __future__ import annotations

from fsdpctl.backends.ssh.candidates import BAD_FOR_S, find_bad, find_candidates, find_file_hosts
from fsdpctl.contract.plan import DroppedHost
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import parse_job, parse_profile

PROFILE = """
name: four
backend: ssh
nodes: [{id: a, address: 10.0.0.1}, {id: b, address: 10.0.0.2}, {id: c, address: 10.0.0.3}]
spares: [{id: s, address: 10.0.0.4, port: 2222, env: {X: "1"}}]
"""


def test_candidates() -> None:
    profile = parse_profile(PROFILE, "p")
    job = parse_job("name: j\nnodes: 2\nentrypoint: {script: s.py}\n", "j")
    plan = build_plan(profile, job, SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ()))
    first, second = find_candidates(plan, 1, (), 100)
    assert (first.rank, first.id, first.ssh_port, first.env) == (1, "s", 2222, {"X": "1"})
    assert second.id == "c"
    taken = plan.with_node(first)
    assert [node.id for node in taken.nodes] == ["a", "s"]
    dropped = (DroppedHost(plan.nodes[1], "no answer", time=100),)
    assert [node.id for node in find_candidates(taken, 1, dropped, 100)] == ["c"]
    assert [node.id for node in find_candidates(taken, 1, dropped, 100 + BAD_FOR_S)] == ["b", "c"]
    assert list(find_bad(dropped, 99 + BAD_FOR_S)) == ["b"]
    assert find_bad(dropped, 100 + BAD_FOR_S) == {}


def test_every_host_of_a_run_may_have_its_files() -> None:
    profile = parse_profile(PROFILE, "p")
    job = parse_job("name: j\nnodes: 1\nentrypoint: {script: s.py}\n", "j")
    plan = build_plan(profile, job, SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ()))
    (spare,) = [node for node in find_candidates(plan, 0, (), 100) if node.id == "s"]
    dropped = (DroppedHost(plan.nodes[0], "no answer", time=100),)
    moved = plan.with_node(spare)
    assert [node.id for node in find_file_hosts(plan, (), 1)] == ["a"]
    assert [node.id for node in find_file_hosts(moved, dropped, 1)] == ["s", "a"]
    hosts = find_file_hosts(moved, dropped, 2)
    assert [(node.id, node.address, node.ssh_port) for node in hosts] == [
        ("s", "10.0.0.4", 2222),
        ("a", "10.0.0.1", 22),
        ("b", "10.0.0.2", 22),
    ], "once it had two nodes"
