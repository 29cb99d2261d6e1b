"""What doctor reports while it works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from fsdpctl.backends.fanout import HostError
from fsdpctl.contract.plan import LaunchPlan, PlannedNode
from fsdpctl.doctor.examine import examine
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import parse_job, parse_profile


class Unreachable:
    """A transport to nodes that do not answer."""

    def __init__(self, plan: LaunchPlan) -> None:
        self.plan = plan

    def run(self, node: PlannedNode, argv: Sequence[str], stdin: bytes, limit_s: float) -> NoReturn:
        raise HostError("no route")

    def close(self) -> None:
        pass


def test_each_node_that_has_been_asked_is_reported() -> None:
    profile = parse_profile("name: local\nbackend: local", "p")
    job = parse_job("name: mine\nnodes: 3\nprocs_per_node: 1\nentrypoint: {module: m}", "j")
    reports: list[str] = []
    examined = examine(
        Unreachable(build_plan(profile, job, SubmitHost("a", "/r/a", "/here", "python3", ()))), reports.append
    )
    assert [node.has_failed for node in examined] == [True] * 3
    asked = [report for report in reports if report.startswith("checking nodes")]
    assert sorted(asked) == [f"checking nodes: {number} of 3 nodes have answered" for number in range(4)]
    assert reports[-1] == "cleaning up"
