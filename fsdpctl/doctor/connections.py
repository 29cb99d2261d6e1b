"""Compare what nodes see of each other: the head's name, its ports, and the shared disk. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from fsdpctl.contract.findings import Check, ConnectivityReport, Finding, LocalReport, Result, fail, ok, unknown
from fsdpctl.contract.plan import LaunchPlan


def compare_heads(
    plan: LaunchPlan, head: LocalReport | None, connectivity: Mapping[int, ConnectivityReport]
) -> dict[int, list[Finding]]:
    """Check that the head's name resolves to the same address on the other nodes as on the head."""
    others = [rank for rank in connectivity if rank != 0]
    if head is None or head.head is None:
        return {rank: [unknown(Check.HEAD, "the head does not know its own address")] for rank in others}
    name, address = plan.head.address, head.head
    return {rank: [_head_finding(name, address, connectivity[rank].resolved_head)] for rank in others}


def _head_finding(name: str | None, address: str, resolved: str) -> Finding:
    if resolved == address:
        return ok(Check.HEAD, address)
    here = f"{name} is {resolved} here" if resolved else f"{name} does not resolve here"
    return fail(Check.HEAD, f"{here}, but {address} on the head", "correct /etc/hosts or DNS there, or use the address")


def compare_connections(
    plan: LaunchPlan, local: Mapping[int, LocalReport], connectivity: Mapping[int, ConnectivityReport]
) -> dict[int, list[Finding]]:
    """Check that every node reached every port that the head could open."""
    opened = connectivity[0].opened if 0 in connectivity else ()
    address = local[0].head if 0 in local else None
    if not opened:
        reason = "the head could open no port" if address else "the head does not know its own address"
        return {rank: [unknown(Check.CONNECT, reason)] for rank in local}
    found = {}
    for rank in local:
        if rank not in connectivity:
            found[rank] = [unknown(Check.CONNECT, "could not be tried")]
            continue
        report = connectivity[rank]
        failed = {port: why for port, why in report.unreached.items() if int(port) in opened}
        found[rank] = [_connection_finding(f"{address}", plan, len(opened), failed, report.source)]
    return found


def _connection_finding(address: str, plan: LaunchPlan, tried: int, failed: Mapping[str, str], source: str) -> Finding:
    way = f" from {source} ({plan.interface})" if source else ""
    if not failed:
        return ok(Check.CONNECT, f"{tried} of {plan.ports.first}-{plan.ports.last} tried, all reached{way}")
    ports, whys = ", ".join(failed), ", ".join(sorted(set(failed.values())))
    reason = f"{len(failed)} of {tried} tried ports of {address} cannot be reached{way}: {ports}: {whys}"
    fix = f"open {plan.ports.first}-{plan.ports.last} on the head for this node; no answer mostly means a firewall"
    return fail(Check.CONNECT, reason, fix)


def compare_shared_disk(
    plan: LaunchPlan, local: Mapping[int, LocalReport], connectivity: Mapping[int, ConnectivityReport]
) -> dict[int, list[Finding]]:
    """Check that every node could read what the head wrote, and the head what they wrote."""
    if len(plan.nodes) == 1 or not plan.shared_disk:
        return {}
    writers = {rank for rank, report in local.items() if not has_failed(report, Check.RUN_ROOT, Check.DISK)}
    head = connectivity.get(0)
    found = {}
    for rank, report in connectivity.items():
        if rank == 0:
            continue
        if head is None or not {0, rank} <= writers:
            found[rank] = [unknown(Check.SHARED, "cannot be tried where nothing can be written")]
        elif 0 in report.tokens and rank in head.tokens:
            found[rank] = [ok(Check.SHARED, "this node reads the head's files, and the head reads this node's")]
        else:
            fix = "set `runs_root` to a directory on a disk that all nodes share"
            reason = "this node does not see the head's files in the run root, or the head not this node's"
            found[rank] = [fail(Check.SHARED, reason, fix)]
    return found


def has_failed(report: LocalReport, *checks: Check) -> bool:
    return any(finding.check in checks and finding.result is Result.FAIL for finding in report.findings)
