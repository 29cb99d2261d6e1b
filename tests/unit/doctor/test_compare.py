"""A node that differs from the others gets a finding, and no other node does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fsdpctl.contract.findings import Check, ConnectivityReport, Finding, LocalReport, Result, Versions, fail, ok
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.clocks import compare_clocks
from fsdpctl.doctor.compare import NodeProbe, compare_nodes, worst_of_each
from fsdpctl.doctor.probe_requests import plan_nodes
from fsdpctl.doctor.versions import compare_versions
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_profile

NUM_NODES = 4
HEAD = "10.0.0.10"
SAME = Versions("3.11.7", "2.13.0+cu130", "13.0", "2.29.3", "580.1")


def plan(**change: Any) -> LaunchPlan:
    made = plan_nodes(load_profile("ssh-h100"), SubmitHost("d", "/shared/runs/d", "/", "python3", ()))
    return replace(made, **change)


def healthy() -> dict[int, NodeProbe]:
    ranks = tuple(range(NUM_NODES))
    probes = {}
    for rank in ranks:
        own = (ok(Check.RUN_ROOT, "written"), *([ok(Check.HEAD, HEAD)] if rank == 0 else []))
        local = LocalReport(own, SAME, 1000.0, HEAD if rank == 0 else None, (24_000, 24_001) if rank == 0 else ())
        connectivity = ConnectivityReport(HEAD, (24_000, 24_001) if rank == 0 else (), {}, "", ranks)
        probes[rank] = NodeProbe(local, received=1000.0, connectivity=connectivity)
    return probes


def bad(probes: dict[int, NodeProbe], made: LaunchPlan | None = None) -> dict[int, dict[Check, Finding]]:
    found = {
        rank: {f.check: f for f in findings if f.result in (Result.FAIL, Result.WARN)}
        for rank, findings in compare_nodes(made or plan(), probes).items()
    }
    return {rank: findings for rank, findings in found.items() if findings}


def with_local(rank: int, **change: Any) -> dict[int, NodeProbe]:
    probes = healthy()
    local = probes[rank].local
    assert local is not None
    return probes | {rank: replace(probes[rank], local=replace(local, **change))}


def with_connectivity(rank: int, **change: Any) -> dict[int, NodeProbe]:
    probes = healthy()
    report = probes[rank].connectivity
    assert report is not None
    return probes | {rank: replace(probes[rank], connectivity=replace(report, **change))}


def test_a_head_without_an_address_is_why_no_connection_was_tried() -> None:
    probes = with_local(0, head=None)
    probes[0] = replace(probes[0], connectivity=ConnectivityReport("", (), {}, "", (0,)))
    findings = compare_nodes(plan(), probes)[1]
    assert [f.reason for f in findings if f.check is Check.CONNECT] == ["the head does not know its own address"]


def test_nothing_is_wrong_with_healthy_nodes() -> None:
    assert bad(healthy()) == {}
    checks = [finding.check for finding in compare_nodes(plan(), healthy())[1]]
    assert checks == sorted(checks, key=list(Check).index)
    assert {Check.TORCH, Check.CUDA, Check.NCCL, Check.DRIVER, Check.HEAD, Check.CONNECT, Check.SHARED} <= set(checks)


@pytest.mark.parametrize("rank", range(NUM_NODES))
@pytest.mark.parametrize(
    ("name", "value", "result"),
    [
        ("python", "3.12.1", Result.FAIL),
        ("python", "3.11.2", Result.WARN),
        ("torch", "2.12.0+cu130", Result.FAIL),
        ("cuda", "12.8", Result.FAIL),
        ("cuda", None, Result.FAIL),
        ("nccl", "2.27.5", Result.FAIL),
        ("driver", "570.1", Result.WARN),
    ],
)
def test_the_node_with_another_version(rank: int, name: str, value: str | None, result: Result) -> None:
    found = bad(with_local(rank, versions=replace(SAME, **{name: value})))
    assert set(found) == {rank}
    assert set(found[rank]) == {Check(name)}
    finding = found[rank][Check(name)]
    assert finding.result is result
    assert finding.reason == f"{name} {value or 'none'}, but {getattr(SAME, name)} on the others"


def test_of_two_nodes_the_head_is_right() -> None:
    found = compare_versions({0: SAME, 1: replace(SAME, torch="2.12.0")}, "cuda")
    assert all(finding.result is Result.OK for finding in found[0])
    assert [f.reason for f in found[1] if f.result is Result.FAIL] == ["torch 2.12.0, but 2.13.0+cu130 on the head"]


def test_a_torch_without_cuda_on_every_node() -> None:
    cpu = Versions("3.11.7", "2.13.0+cpu")
    found = compare_versions({0: cpu, 1: cpu}, "cuda")
    assert [(f.check, f.result) for f in found[1] if f.result is not Result.OK] == [
        (Check.CUDA, Result.FAIL),
        (Check.NCCL, Result.UNKNOWN),
        (Check.DRIVER, Result.UNKNOWN),
    ]
    assert [f.check for f in compare_versions({0: cpu, 1: cpu}, "cpu")[1]] == [Check.PYTHON, Check.TORCH]


def test_without_torch_there_is_nothing_to_compare() -> None:
    broken = (fail(Check.TORCH, "cannot be imported", "install it"),)
    found = bad(with_local(2, findings=broken, versions=Versions("3.11.7", driver="580.1")))
    assert {rank: set(findings) for rank, findings in found.items()} == {2: {Check.TORCH}}


@pytest.mark.parametrize("rank", range(NUM_NODES))
@pytest.mark.parametrize(
    ("skew", "result", "text"),
    [(7200, Result.FAIL, "7200 s ahead of"), (-90, Result.FAIL, "90 s behind"), (-5, Result.WARN, "5 s behind")],
)
def test_the_clock_that_is_wrong(rank: int, skew: float, result: Result, text: str) -> None:
    found = bad(with_local(rank, time=1000.0 + skew))
    assert set(found) == {rank}
    assert (found[rank][Check.CLOCK].result, text in found[rank][Check.CLOCK].reason) == (result, True)


def test_of_two_nodes_the_head_can_be_the_one_with_the_wrong_clock() -> None:
    found = compare_clocks({0: 7200.0, 1: 0.1})
    assert [found[rank][0].result for rank in (0, 1)] == [Result.FAIL, Result.OK]


def test_a_wrong_clock_of_the_submitting_machine_is_no_finding() -> None:
    found = compare_clocks({0: 500.0, 1: 500.1, 2: 499.9})
    assert {finding.result for (finding,) in found.values()} == {Result.OK}


def test_a_head_whose_name_resolves_differently() -> None:
    named = replace(plan(), head=replace(plan().head, address="head.example"))
    found = bad(with_connectivity(3, resolved_head="127.0.1.1"), named)
    assert {rank: set(findings) for rank, findings in found.items()} == {3: {Check.HEAD}}
    assert found[3][Check.HEAD].reason == "head.example is 127.0.1.1 here, but 10.0.0.10 on the head"
    found = bad(with_connectivity(3, resolved_head=""), named)
    assert found[3][Check.HEAD].reason == "head.example does not resolve here, but 10.0.0.10 on the head"


def test_ports_that_cannot_be_reached() -> None:
    found = bad(with_connectivity(1, unreached={"24001": "no answer", "24009": "refused"}))  # 24009 was not opened
    assert {rank: set(findings) for rank, findings in found.items()} == {1: {Check.CONNECT}}
    reason = found[1][Check.CONNECT].reason
    assert reason.startswith("1 of 2 tried ports of 10.0.0.10 cannot be reached: 24001: no answer")


def test_a_run_root_that_is_not_shared() -> None:
    probes = with_connectivity(2, tokens=(2,))
    head = probes[0].connectivity
    assert head is not None
    probes[0] = replace(probes[0], connectivity=replace(head, tokens=(0, 1, 3)))
    found = bad(probes)
    assert {rank: set(findings) for rank, findings in found.items()} == {2: {Check.SHARED}}
    assert not bad(probes, plan(shared_disk=False)), "where the profile does not claim a shared disk"


def test_what_could_not_be_tried_is_unknown() -> None:
    found = compare_nodes(plan(), with_local(0, findings=(fail(Check.RUN_ROOT, "read-only", "remount"),), head=None))
    results = {finding.check: finding.result for finding in found[1]}
    assert results[Check.SHARED] is results[Check.HEAD] is Result.UNKNOWN
    closed = compare_nodes(plan(), with_connectivity(0, opened=()))
    assert {f.result for findings in closed.values() for f in findings if f.check is Check.CONNECT} == {Result.UNKNOWN}


@pytest.mark.parametrize("rank", [0, 2])
def test_an_unreachable_node_is_a_finding_of_that_node_only(rank: int) -> None:
    found = bad(healthy() | {rank: NodeProbe(error="10.0.0.12: no answer within 10 s")})
    assert {rank: set(findings) for rank, findings in found.items()} == {rank: {Check.REACH}}
    assert found[rank][Check.REACH].reason == "10.0.0.12: no answer within 10 s"


def test_the_worst_of_each_check_is_kept() -> None:
    kept = worst_of_each(
        [fail(Check.TORCH, "a", ""), ok(Check.PYTHON, "path"), ok(Check.PYTHON, "3.11"), ok(Check.TORCH, "b")]
    )
    assert [(finding.check, finding.reason) for finding in kept] == [(Check.PYTHON, "3.11"), (Check.TORCH, "a")]
