"""Which hosts are late or at fault."""

from __future__ import annotations

from pathlib import Path

import pytest

from fsdpctl.backends.fanout import HostError, HostResult
from fsdpctl.backends.ssh.host_faults import find_failed_node, find_late, find_refused
from fsdpctl.backends.ssh.transport.answer import NoRunDirectoryError
from fsdpctl.contract import NodeExit
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.records import NodeEnd
from fsdpctl.node.queries.agent_control import NodeFacts

FACTS = NodeFacts("x", "3.12", "2.13", 0.0)
SETUP_FAILED = HostError("b: exit code 1: Unable to locate a modulefile for 'cuda/13'")
CUT_OFF = HostError("b: no answer within 60 s", passing=True)


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
    assert find_refused(results) == at_fault
