"""Hosts are compared before a start."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.backends.ssh.preflight import compare
from fsdpctl.node.queries.agent_control import NodeFacts

FACTS = NodeFacts("h", "3.11", "2.13.0", time=1000.0)


def test_the_host_that_differs_is_named() -> None:
    odd = replace(FACTS, torch="2.12.0")
    assert compare({0: FACTS, 1: odd, 2: FACTS}, 1000) == {1: "torch 2.12.0, the other nodes have 2.13.0"}
    assert compare({0: FACTS, 1: replace(FACTS, torch="")}, 1000) == {1: "torch none, the other nodes have 2.13.0"}
    assert compare({1: FACTS, 0: odd}, 1000) == {0: "torch 2.12.0, the other nodes have 2.13.0"}, (
        "of two, the first counts"
    )
    assert compare({0: FACTS, 1: replace(odd, python="3.12"), 2: FACTS}, 1000) == {
        1: "python 3.12, the other nodes have 3.11; torch 2.12.0, the other nodes have 2.13.0"
    }
    assert compare({0: odd, 1: odd}, 1000) == {}
    assert compare({}, 1000) == {}


@pytest.mark.parametrize(("now", "expected"), [(940, []), (939, ["ahead of"]), (1060, []), (1061, ["behind"])])
def test_a_clock_may_be_a_minute_off(now: float, expected: list[str]) -> None:
    problems = compare({0: FACTS}, now).values()
    assert len(problems) == len(expected) and all(
        text in problem for text, problem in zip(expected, problems, strict=True)
    )
