"""Compare the reports of all nodes: a node that differs from the others gets the finding. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fsdpctl.contract.findings import Check, ConnectivityReport, Finding, LocalReport, Result, fail, ok
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.clocks import compare_clocks
from fsdpctl.doctor.connections import compare_connections, compare_heads, compare_shared_disk
from fsdpctl.doctor.versions import compare_versions

_SEVERITY = [Result.OK, Result.UNKNOWN, Result.WARN, Result.FAIL]
_ORDER = list(Check)


@dataclass(frozen=True)
class NodeProbe:
    """The reports of one node, or the errors instead of them."""

    local: LocalReport | None = None
    received: float = 0.0  # when `local` arrived, by this machine's clock
    error: str = ""
    connectivity: ConnectivityReport | None = None
    connectivity_error: str = ""


def compare_nodes(plan: LaunchPlan, probes: Mapping[int, NodeProbe]) -> dict[int, list[Finding]]:
    """Return node rank -> its findings, one for each check, in the order of the checks."""
    local = {rank: probe.local for rank, probe in probes.items() if probe.local is not None}
    connectivity = {rank: probe.connectivity for rank, probe in probes.items() if probe.connectivity is not None}
    skews = {rank: report.time - probes[rank].received for rank, report in local.items()}
    found: dict[int, list[Finding]] = {rank: [reach_finding(probe)] for rank, probe in probes.items()}
    for rank, report in local.items():
        found[rank] += report.findings
    for compared in (
        compare_versions({rank: report.versions for rank, report in local.items()}, plan.device),
        compare_clocks(skews),
        compare_heads(plan, local.get(0), connectivity),
        compare_connections(plan, local, connectivity),
        compare_shared_disk(plan, local, connectivity),
    ):
        for rank, findings in compared.items():
            found[rank] += findings
    return {rank: worst_of_each(findings) for rank, findings in found.items()}


def worst_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """Return one finding for each check: the worst, and of equals the last, which compares more nodes."""
    kept: dict[Check, Finding] = {}
    for finding in findings:
        before = kept.get(finding.check)
        if before is None or _SEVERITY.index(finding.result) >= _SEVERITY.index(before.result):
            kept[finding.check] = finding
    return sorted(kept.values(), key=lambda finding: _ORDER.index(finding.check))


def reach_finding(probe: NodeProbe) -> Finding:
    if problem := probe.error or probe.connectivity_error:
        return fail(Check.REACH, problem, "fix the connection, or `environment`, `python` or `setup` of the profile")
    return ok(Check.REACH, "answers")
