"""The odd one out is named, and nobody else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fsdpctl.contract.findings import Check, ConnectivityReport, Finding, LocalReport, Result, Versions, fail, ok
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.compare import NodeProbe, compare_clocks, compare_versions, judge, worst_of_each
from fsdpctl.doctor.probe_requests import plan_nodes
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_profile

NUM_NODES = 4
HEAD = "10.0.0.10"
SAME = Versions("3.11.7", "2.13.0+cu130", "13.0", "2.29.3", "580.1")


def plan(**change: Any) -> LaunchPlan:
    made = plan_nodes(load_profile("ssh-h100"), SubmitHost("d", "/shared/runs/d", "/", "python3", ()))
    return replace(made, **change)


def healthy() -> dict[int, NodeProbe]:
    everyone = tuple(range(NUM_NODES))
    visits = {}
    for rank in everyone:
        own = (ok(Check.RUN_ROOT, "written"), *([ok(Check.HEAD, HEAD)] if rank == 0 else []))
        look = LocalReport(own, SAME, 1000.0, HEAD if rank == 0 else None, (24_000, 24_001) if rank == 0 else ())
        meet = ConnectivityReport(HEAD, (24_000, 24_001) if rank == 0 else (), {}, "", everyone)
        visits[rank] = NodeProbe(look, received=1000.0, meet=meet)
    return visits


def bad(visits: dict[int, NodeProbe], made: LaunchPlan | None = None) -> dict[int, dict[Check, Finding]]:
    found = {
        rank: {f.check: f for f in findings if f.result in (Result.FAIL, Result.WARN)}
        for rank, findings in judge(made or plan(), visits).items()
    }
    return {rank: findings for rank, findings in found.items() if findings}


def with_look(rank: int, **change: Any) -> dict[int, NodeProbe]:
    visits = healthy()
    look = visits[rank].look
    assert look is not None
    return visits | {rank: replace(visits[rank], look=replace(look, **change))}


def with_meet(rank: int, **change: Any) -> dict[int, NodeProbe]:
    visits = healthy()
    meet = visits[rank].meet
    assert meet is not None
    return visits | {rank: replace(visits[rank], meet=replace(meet, **change))}


def test_nothing_is_wrong_with_healthy_nodes() -> None:
    assert bad(healthy()) == {}
    checks = [finding.check for finding in judge(plan(), healthy())[1]]
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
    found = bad(with_look(rank, versions=replace(SAME, **{name: value})))
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
    found = bad(with_look(2, findings=broken, versions=Versions("3.11.7", driver="580.1")))
    assert {rank: set(findings) for rank, findings in found.items()} == {2: {Check.TORCH}}


@pytest.mark.parametrize("rank", range(NUM_NODES))
@pytest.mark.parametrize(
    ("skew", "result", "words"),
    [(7200, Result.FAIL, "7200 s ahead of"), (-90, Result.FAIL, "90 s behind"), (-5, Result.WARN, "5 s behind")],
)
def test_the_clock_that_is_wrong(rank: int, skew: float, result: Result, words: str) -> None:
    found = bad(with_look(rank, time=1000.0 + skew))
    assert set(found) == {rank}
    assert (found[rank][Check.CLOCK].result, words in found[rank][Check.CLOCK].reason) == (result, True)


def test_the_head_of_two_is_the_one_whose_clock_is_wrong() -> None:
    found = compare_clocks({0: 7200.0, 1: 0.1})
    assert [found[rank][0].result for rank in (0, 1)] == [Result.FAIL, Result.OK]


def test_a_laptop_with_a_wrong_clock_accuses_nobody() -> None:
    found = compare_clocks({0: 500.0, 1: 500.1, 2: 499.9})
    assert {finding.result for (finding,) in found.values()} == {Result.OK}


def test_a_head_that_is_somebody_else_elsewhere() -> None:
    named = replace(plan(), head=replace(plan().head, address="head.example"))
    found = bad(with_meet(3, head_seen="127.0.1.1"), named)
    assert {rank: set(findings) for rank, findings in found.items()} == {3: {Check.HEAD}}
    assert found[3][Check.HEAD].reason == "head.example is 127.0.1.1 here, but 10.0.0.10 on the head"
    found = bad(with_meet(3, head_seen=""), named)
    assert found[3][Check.HEAD].reason == "head.example does not resolve here, but 10.0.0.10 on the head"


def test_ports_that_cannot_be_reached() -> None:
    found = bad(with_meet(1, unreached={"24001": "no answer", "24009": "refused"}))  # 24009 was not opened
    assert {rank: set(findings) for rank, findings in found.items()} == {1: {Check.CONNECT}}
    reason = found[1][Check.CONNECT].reason
    assert reason.startswith("1 of 2 tried ports of 10.0.0.10 cannot be reached: 24001: no answer")


def test_a_run_root_that_is_not_shared() -> None:
    visits = with_meet(2, tokens=(2,))
    head = visits[0].meet
    assert head is not None
    visits[0] = replace(visits[0], meet=replace(head, tokens=(0, 1, 3)))
    found = bad(visits)
    assert {rank: set(findings) for rank, findings in found.items()} == {2: {Check.SHARED}}
    assert not bad(visits, plan(shared_disk=False)), "where nobody says that it is"


def test_what_could_not_be_tried_is_unknown() -> None:
    found = judge(plan(), with_look(0, findings=(fail(Check.RUN_ROOT, "read-only", "remount"),), head=None))
    results = {finding.check: finding.result for finding in found[1]}
    assert results[Check.SHARED] is results[Check.HEAD] is Result.UNKNOWN
    closed = judge(plan(), with_meet(0, opened=()))
    assert {f.result for findings in closed.values() for f in findings if f.check is Check.CONNECT} == {Result.UNKNOWN}


@pytest.mark.parametrize("rank", [0, 2])
def test_a_node_that_is_not_reached_accuses_no_other(rank: int) -> None:
    found = bad(healthy() | {rank: NodeProbe(error="10.0.0.12: no answer within 10 s")})
    assert {rank: set(findings) for rank, findings in found.items()} == {rank: {Check.REACH}}
    assert found[rank][Check.REACH].reason == "10.0.0.12: no answer within 10 s"


def test_the_worst_of_each_check_is_kept() -> None:
    kept = worst_of_each(
        [fail(Check.TORCH, "a", ""), ok(Check.PYTHON, "path"), ok(Check.PYTHON, "3.11"), ok(Check.TORCH, "b")]
    )
    assert [(finding.check, finding.reason) for finding in kept] == [(Check.PYTHON, "3.11"), (Check.TORCH, "a")]
