"""Probe all nodes of a plan, test their connections, clean up; then compare the reports."""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from fsdpctl.backends.base import ProbeTransport
from fsdpctl.backends.fanout import HostError, fan_out, max_connections
from fsdpctl.contract.codec import CodecError, decode, encode
from fsdpctl.contract.findings import ConnectivityReport, Finding, LocalReport, ProbeRequest, Result, Versions
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.compare import NodeProbe, compare_nodes
from fsdpctl.doctor.payload import build_payload, last_line, probe_argv
from fsdpctl.doctor.probe_requests import clean_request, connectivity_request, local_request

LOCAL_S, CONNECTIVITY_S, CLEAN_S = 120.0, 60.0, 30.0
"""Limits of the three stages, in seconds."""

T = TypeVar("T", LocalReport, ConnectivityReport)
R = TypeVar("R")

Report = Callable[[str], None]
"""Takes what doctor is doing now, from several threads."""


@dataclass(frozen=True)
class Examined:
    """One node, with one finding for each check that applies to it."""

    node: str
    address: str | None
    versions: Versions | None
    findings: tuple[Finding, ...]

    @property
    def has_failed(self) -> bool:
        return any(finding.result is Result.FAIL for finding in self.findings)


def examine(transport: ProbeTransport, report: Report) -> list[Examined]:
    """Check all nodes of the plan at once, and report how many have answered. A node that cannot be reached gets a
    finding; nothing is raised for it."""
    plan = transport.plan
    probes = _probe_all(plan, transport, report)
    reached = [rank for rank, probe in probes.items() if probe.local is not None]
    try:
        probes |= _test_connectivity(plan, transport, probes, reached, report)
    finally:
        report("cleaning up")
        fan_out(reached, lambda rank: _ask(plan, transport, clean_request(plan, rank), CLEAN_S), len(reached))
    found = compare_nodes(plan, probes)
    reports = {node.rank: probes[node.rank].local for node in plan.nodes}
    versions = {rank: report.versions for rank, report in reports.items() if report is not None}
    return [Examined(n.id, n.address, versions.get(n.rank), tuple(found[n.rank])) for n in plan.nodes]


def _counted(act: Callable[[int], R], what: str, total: int, report: Report) -> Callable[[int], R]:
    """Return the same function; each call that ends is reported."""
    ended = itertools.count(1)
    report(f"{what}: 0 of {total} nodes have answered")

    def call(rank: int) -> R:
        try:
            return act(rank)
        finally:
            report(f"{what}: {next(ended)} of {total} nodes have answered")

    return call


def _probe_all(plan: LaunchPlan, transport: ProbeTransport, report: Report) -> dict[int, NodeProbe]:
    def probe(rank: int) -> NodeProbe:
        found = _read(LocalReport, _ask(plan, transport, local_request(plan, rank), LOCAL_S))
        return NodeProbe(found, received=time.time())

    ranks = [node.rank for node in plan.nodes]
    results = fan_out(ranks, _counted(probe, "checking nodes", len(ranks), report))
    return {result.item: result.value or NodeProbe(error=str(result.error)) for result in results}


def _test_connectivity(
    plan: LaunchPlan, transport: ProbeTransport, probes: dict[int, NodeProbe], reached: Sequence[int], report: Report
) -> dict[int, NodeProbe]:
    """Ask the reached nodes in groups, each at the same time: the head accepts connections while the others connect."""
    head = probes[0].local
    tested: dict[int, NodeProbe] = {}
    for group in form_groups(reached, max_connections()):

        def connect(rank: int, group: Sequence[int] = group) -> ConnectivityReport:
            request = connectivity_request(plan, rank, head, group)
            return _read(ConnectivityReport, _ask(plan, transport, request, CONNECTIVITY_S))

        counted = _counted(connect, "testing connections", len(group), report)
        for result in fan_out(group, counted, len(group)):
            found, before = result.value, tested.get(result.item)
            if found and before and before.connectivity:  # of the head, which is in every group
                found = replace(found, tokens=(*before.connectivity.tokens, *found.tokens))
            error = str(result.error or "")
            tested[result.item] = replace(probes[result.item], connectivity=found, connectivity_error=error)
    return tested


def form_groups(ranks: Sequence[int], size: int) -> list[list[int]]:
    """Return groups of at most `size` nodes, or two; each has the head if it is among the nodes."""
    head, others = [rank for rank in ranks if rank == 0], [rank for rank in ranks if rank != 0]
    step = max(1, size - len(head))
    return [[*head, *others[at : at + step]] for at in range(0, max(1, len(others)), step)]


def _ask(plan: LaunchPlan, transport: ProbeTransport, request: ProbeRequest, limit_s: float) -> str:
    payload = build_payload(json.dumps(encode(request)))
    answer = transport.run(plan.nodes[request.node_rank], probe_argv(plan.python), payload, limit_s)
    return last_line(answer, plan.python)


def _read(kind: type[T], answer: str) -> T:
    try:
        return decode(kind, json.loads(answer))
    except (ValueError, CodecError) as error:
        raise HostError(f"the probe's answer cannot be read: {error}") from None
