"""The table of `doctor`: few rows for many nodes; a node that differs is named."""

from __future__ import annotations

import random

import pytest

from fsdpctl.contract.findings import Check, Finding, fail, ok, warn
from fsdpctl.doctor.examine import Examined
from fsdpctl.doctor.rows import MAX_NAMES, rows

NUM_NODES = 64


def cluster(*common: Finding, odd: dict[int, Finding] | None = None, num_nodes: int = NUM_NODES) -> list[Examined]:
    """Nodes with the same findings, but for the odd ones."""
    by_node = [(*common, *([odd[rank]] if odd and rank in odd else [])) for rank in range(num_nodes)]
    return [Examined(f"node{rank:02}", None, None, findings) for rank, findings in enumerate(by_node)]


def test_a_finding_of_all_nodes_is_one_row() -> None:
    assert rows(cluster(ok(Check.REACH, "answers"), ok(Check.PYTHON, "3.11.7"))) == [
        ("reach", "ok", "all", "answers"),
        ("python", "ok", "all", "3.11.7"),
    ]


def test_the_odd_ones_are_named_among_many() -> None:
    odd = {rank: fail(Check.MEMLOCK, "1 MiB", "raise it") for rank in (7, 8, 9, 40)}
    assert rows(cluster(ok(Check.REACH, "answers"), odd=odd))[1:] == [
        ("memlock", "fail", "node[07-09,40]", "1 MiB. Fix: raise it")
    ]


def test_many_odd_ones_leave_the_columns_narrow_and_are_all_named() -> None:
    chosen = random.Random(0).sample(range(NUM_NODES), 20)
    [(_, _, nodes, reason)] = rows(cluster(odd={rank: warn(Check.NOFILE, "1024", "raise it") for rank in chosen}))
    assert nodes == "20 nodes"
    assert reason.startswith("node[")
    assert reason.endswith("]: 1024. Fix: raise it")
    assert f"{min(chosen):02}" in reason


def test_findings_that_differ_in_numbers_share_a_row_when_nodes_are_many() -> None:
    own = {rank: ok(Check.INTERFACE, f"eth0 has 10.0.0.{rank}") for rank in range(NUM_NODES)}
    assert rows(cluster(odd=own)) == [
        ("interface", "ok", "all", "node00: eth0 has 10.0.0.0 (the others differ in numbers)")
    ]
    few = {rank: ok(Check.INTERFACE, f"eth0 has 10.0.0.{rank}") for rank in range(4)}
    assert [row[2:] for row in rows(cluster(odd=few, num_nodes=4))] == [
        (f"node0{rank}", f"eth0 has 10.0.0.{rank}") for rank in range(4)
    ]


def test_a_failure_has_its_own_row() -> None:
    free = {rank: ok(Check.DISK, f"{100 + rank} GiB free") for rank in range(NUM_NODES)}
    free[5] = fail(Check.DISK, "0 GiB free", "make room")
    found = rows(cluster(odd=free))
    assert [(row[1], row[2]) for row in found] == [("ok", "node[00-04,06-63]"), ("fail", "node05")]


@pytest.mark.parametrize("num_nodes", [2, 64, 1024])
def test_the_columns_before_the_reason_stay_narrow(num_nodes: int) -> None:
    found = ok(Check.REACH, "answers")
    nodes = [Examined(f"gpu-{rank}.cluster.example", None, None, (found,)) for rank in range(num_nodes)]
    lonely = Examined("a-name-as-long-as-they-are-in-some-clouds", None, None, (fail(Check.REACH, "no answer", "fix"),))
    many, one = rows([*nodes, lonely])
    assert len(many[2]) <= MAX_NAMES
    assert one[2] == lonely.node
