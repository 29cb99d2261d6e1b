"""All nodes of a plan: probe each, test their connections, clean up; then compare."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fsdpctl.backends.base import ProbeTransport
from fsdpctl.backends.fanout import HostError, fan_out
from fsdpctl.contract.codec import CodecError, decode, encode
from fsdpctl.contract.findings import ConnectivityReport, Finding, LocalReport, ProbeRequest, Result, Versions
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.compare import NodeProbe, judge
from fsdpctl.doctor.payload import build_payload, last_line, probe_argv
from fsdpctl.doctor.probe_requests import clean_request, connectivity_request, local_request

LOOK_S, MEET_S, CLEAN_S = 120.0, 60.0, 30.0

T = TypeVar("T", LocalReport, ConnectivityReport)


@dataclass(frozen=True)
class Examined:
    """One node, with one finding for each check that has a meaning there."""

    node: str
    address: str | None
    versions: Versions | None
    findings: tuple[Finding, ...]

    @property
    def has_failed(self) -> bool:
        return any(finding.result is Result.FAIL for finding in self.findings)


def examine(transport: ProbeTransport) -> list[Examined]:
    """Probe all nodes of the plan at once. A node that cannot be reached is a finding, not the end."""
    plan = transport.plan
    visits = _look(plan, transport)
    reached = [rank for rank, visit in visits.items() if visit.look is not None]
    try:
        visits |= _meet(plan, transport, visits, reached)
    finally:
        fan_out(reached, lambda rank: _ask(plan, transport, clean_request(plan, rank), CLEAN_S), len(reached))
    found = judge(plan, visits)
    looks = {node.rank: visits[node.rank].look for node in plan.nodes}
    versions = {rank: look.versions for rank, look in looks.items() if look is not None}
    return [Examined(n.id, n.address, versions.get(n.rank), tuple(found[n.rank])) for n in plan.nodes]


def _look(plan: LaunchPlan, transport: ProbeTransport) -> dict[int, NodeProbe]:
    def visit(rank: int) -> NodeProbe:
        look = _read(LocalReport, _ask(plan, transport, local_request(plan, rank), LOOK_S))
        return NodeProbe(look, received=time.time())

    results = fan_out([node.rank for node in plan.nodes], visit)
    return {result.item: result.value or NodeProbe(error=str(result.error)) for result in results}


def _meet(
    plan: LaunchPlan, transport: ProbeTransport, visits: dict[int, NodeProbe], reached: Sequence[int]
) -> dict[int, NodeProbe]:
    """All at the same time: the head answers while the others connect."""
    head = visits[0].look

    def visit(rank: int) -> ConnectivityReport:
        return _read(ConnectivityReport, _ask(plan, transport, connectivity_request(plan, rank, head, reached), MEET_S))

    results = fan_out(reached, visit, len(reached))
    return {
        result.item: replace(visits[result.item], meet=result.value, meet_error=str(result.error or ""))
        for result in results
    }


def _ask(plan: LaunchPlan, transport: ProbeTransport, request: ProbeRequest, limit_s: float) -> str:
    payload = build_payload(json.dumps(encode(request)))
    answer = transport.run(plan.nodes[request.node_rank], probe_argv(plan.python), payload, limit_s)
    return last_line(answer, plan.python)


def _read(kind: type[T], answer: str) -> T:
    try:
        return decode(kind, json.loads(answer))
    except (ValueError, CodecError) as error:
        raise HostError(f"the probe's answer cannot be read: {error}") from None
