"""Which hosts of a profile a run gets: none that are held, suspects last, or those of its hold."""

from __future__ import annotations

import pytest

from fsdpctl.backends.placement import Avoid, Own, Placed
from fsdpctl.backends.ssh.placement import machines, place
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import RefusedError
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import parse_job, parse_profile

PROFILE = """
name: four
backend: ssh
nodes: [{id: a, address: 10.0.0.1}, {id: b, address: 10.0.0.2}, {id: c, address: 10.0.0.3, env: {X: "1"}}]
spares: [{id: s, address: 10.0.0.4, port: 2222}, {id: t, address: 10.0.0.5}]
"""
A, B, C, S = "10.0.0.1:22", "10.0.0.2:22", "10.0.0.3:22", "10.0.0.4:2222"


def plan(nodes: int = 2, more: str = "") -> LaunchPlan:
    job = parse_job(f"name: j\nnodes: {nodes}\nentrypoint: {{script: s.py}}\n", "j")
    host = SubmitHost("j-abcd", "/runs/j-abcd", "/here", "python3", ())
    return build_plan(parse_profile(PROFILE + more, "p"), job, host)


def placed(plan: LaunchPlan, avoid: Avoid, own: Own | None = None) -> list[tuple[int, str]]:
    return [(node.rank, node.id) for node in place(plan, avoid, own).plan.nodes]


def test_a_plan_stays_as_it_is_where_nothing_is_to_be_avoided() -> None:
    assert place(plan(), Avoid()) == Placed(plan())
    assert machines(plan()) == (A, B)


def test_hosts_that_are_held_are_left_out_spares_too() -> None:
    avoid = Avoid(held={A: "dev", S: "dev"})
    assert placed(plan(), avoid) == [(0, "b"), (1, "c")]
    found = place(plan(), avoid).plan
    assert found.nodes[1].env == {"X": "1"}
    assert found.ssh is not None and [node.id for node in found.ssh.spares] == ["t"]


def test_too_few_that_are_free_are_refused_with_the_holds() -> None:
    with pytest.raises(RefusedError, match="3 nodes wanted, but only 2 of the profile are not held") as refused:
        place(plan(3), Avoid(held={B: "dev"}))
    assert refused.value.hint is not None and refused.value.hint.endswith(": dev")


def test_suspects_come_last_and_are_taken_if_there_is_no_other() -> None:
    suspects = Avoid(suspects=[A])
    assert placed(plan(), suspects) == [(0, "b"), (1, "c")]
    assert place(plan(), suspects).avoided == (A,) and place(plan(3), suspects).used == (A,)
    assert placed(plan(3), suspects) == [(0, "b"), (1, "c"), (2, "a")]


def test_the_head_that_a_profile_names_stays_the_head() -> None:
    named = plan(more="master_address: 10.0.0.1\n")
    assert placed(named, Avoid(suspects=[A, B])) == [(0, "a"), (1, "c")]


def test_a_run_in_a_hold_gets_its_hosts() -> None:
    avoid = Avoid(held={B: "dev", C: "dev"}, suspects=[B])
    assert placed(plan(), avoid, Own("dev", (C, B))) == [(0, "c"), (1, "b")]
    with pytest.raises(RefusedError, match="3 nodes wanted, but hold dev has 2"):
        place(plan(3), avoid, Own("dev", (C, B)))
