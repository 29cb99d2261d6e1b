"""What nodes said, side by side: the odd one out is named, and nobody else. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from fsdpctl.contract.findings import (
    MAX_CLOCK_SKEW_S,
    Check,
    ConnectivityReport,
    Finding,
    LocalReport,
    Result,
    Versions,
    fail,
    most_common,
    ok,
    unknown,
    warn,
)
from fsdpctl.contract.plan import Device, LaunchPlan

NOTED_CLOCK_SKEW_S = 2.0
"""More than the uncertainty of asking a busy node."""

_SEVERITY = [Result.OK, Result.UNKNOWN, Result.WARN, Result.FAIL]
_ORDER = list(Check)
_FIX_VERSION = "install the same versions on every node: one `venv` on a shared disk, or the same image"


@dataclass(frozen=True)
class NodeProbe:
    """What came of one node: the look with the time when it arrived, then the meeting; or why there is none."""

    look: LocalReport | None = None
    received: float = 0.0  # by this machine's clock
    error: str = ""
    meet: ConnectivityReport | None = None
    meet_error: str = ""


def judge(plan: LaunchPlan, visits: Mapping[int, NodeProbe]) -> dict[int, list[Finding]]:
    """Node rank -> its findings in the order of the checks, one for each."""
    looks = {rank: visit.look for rank, visit in visits.items() if visit.look is not None}
    meets = {rank: visit.meet for rank, visit in visits.items() if visit.meet is not None}
    skews = {rank: look.time - visits[rank].received for rank, look in looks.items()}
    found: dict[int, list[Finding]] = {rank: reach_findings(visit) for rank, visit in visits.items()}
    for rank, look in looks.items():
        found[rank] += look.findings
    for compared in (
        compare_versions({rank: look.versions for rank, look in looks.items()}, plan.device),
        compare_clocks(skews),
        compare_heads(plan, looks.get(0), meets),
        judge_connections(plan, looks, meets),
        judge_sharing(plan, looks, meets),
    ):
        for rank, finding in compared.items():
            found[rank] += finding
    return {rank: worst_of_each(findings) for rank, findings in found.items()}


def worst_of_each(findings: Sequence[Finding]) -> list[Finding]:
    """One finding a check: the worst, and of equals the last, which has seen more nodes."""
    kept: dict[Check, Finding] = {}
    for finding in findings:
        before = kept.get(finding.check)
        if before is None or _SEVERITY.index(finding.result) >= _SEVERITY.index(before.result):
            kept[finding.check] = finding
    return sorted(kept.values(), key=lambda finding: _ORDER.index(finding.check))


def reach_findings(visit: NodeProbe) -> list[Finding]:
    if problem := visit.error or visit.meet_error:
        return [fail(Check.REACH, problem, "mend the connection or the profile's `python` and `setup` first")]
    return [ok(Check.REACH, "answers")]


def compare_versions(versions: Mapping[int, Versions], device: Device) -> dict[int, list[Finding]]:
    """Each version against that of the most nodes; the head's where there is no majority."""
    found: dict[int, list[Finding]] = {rank: [] for rank in versions}
    for name in (field.name for field in fields(Versions)):
        # Without torch there is no CUDA or NCCL to compare, and somebody has said so already.
        asked = [r for r, v in versions.items() if (v.python if name in ("python", "driver") else v.torch) is not None]
        seen = {rank: getattr(versions[rank], name) for rank in asked}
        if device == "cpu" and not any(seen.values()):
            continue
        usual = most_common(list(seen.values())) if seen else None
        for rank, value in seen.items():
            found[rank].append(_judge_version(Check(name), value, usual, len(seen)))
    return found


def _judge_version(check: Check, value: str | None, usual: str | None, num_nodes: int) -> Finding:
    if value == usual:
        if value is None and check is Check.CUDA:
            return fail(check, "torch is built without CUDA", "install the CUDA build of torch")
        if value is None:
            return unknown(check, "this build of torch or this driver does not tell")
        return ok(check, value)
    reason = f"{check} {value or 'none'}, but {usual or 'none'} on {'the head' if num_nodes == 2 else 'the others'}"
    harmless = check is Check.DRIVER or (check is Check.PYTHON and _minor(value) == _minor(usual))
    return (warn if harmless else fail)(check, reason, _FIX_VERSION)


def _minor(version: str | None) -> str:
    return (version or "").rpartition(".")[0]


def compare_clocks(skews: Mapping[int, float]) -> dict[int, list[Finding]]:
    """Against the middle of all clocks, this machine's among them: one that is wrong stands alone."""
    middle = statistics.median_low([0.0, *skews.values()]) if len(skews) != 1 else 0.0
    return {rank: [_judge_clock(skew - middle)] for rank, skew in skews.items()}


def _judge_clock(skew: float) -> Finding:
    if abs(skew) < NOTED_CLOCK_SKEW_S:
        return ok(Check.CLOCK, f"within {NOTED_CLOCK_SKEW_S:.0f} s of the other clocks")
    direction = "ahead of" if skew > 0 else "behind"
    judge = fail if abs(skew) > MAX_CLOCK_SKEW_S else warn
    fix = "start chrony or ntpd there: logs of several nodes are ordered by their clocks"
    return judge(Check.CLOCK, f"its clock is {abs(skew):.0f} s {direction} the others'", fix)


def compare_heads(
    plan: LaunchPlan, head: LocalReport | None, meets: Mapping[int, ConnectivityReport]
) -> dict[int, list[Finding]]:
    """What the head's name means elsewhere must be what it means on the head."""
    others = [rank for rank in meets if rank != 0]
    if head is None or head.head is None:
        return {rank: [unknown(Check.HEAD, "the head does not know its own address")] for rank in others}
    return {rank: [_judge_head(plan.head.address, head.head, meets[rank].head_seen)] for rank in others}


def _judge_head(name: str | None, own: str, seen: str) -> Finding:
    if seen == own:
        return ok(Check.HEAD, own)
    meaning = f"{name} is {seen} here" if seen else f"{name} does not resolve here"
    return fail(Check.HEAD, f"{meaning}, but {own} on the head", "correct /etc/hosts or DNS there, or use the address")


def judge_connections(
    plan: LaunchPlan, looks: Mapping[int, LocalReport], meets: Mapping[int, ConnectivityReport]
) -> dict[int, list[Finding]]:
    """Every node must reach every port that the head really opened."""
    opened = meets[0].opened if 0 in meets else ()
    address = looks[0].head if 0 in looks else None
    if not opened:
        return {rank: [unknown(Check.CONNECT, "the head could open no port")] for rank in looks}
    found = {}
    for rank in looks:
        if rank not in meets:
            found[rank] = [unknown(Check.CONNECT, "could not be tried")]
            continue
        failed = {port: why for port, why in meets[rank].unreached.items() if int(port) in opened}
        found[rank] = [_judge_connection(f"{address}", plan, len(opened), failed, meets[rank].source)]
    return found


def _judge_connection(address: str, plan: LaunchPlan, tried: int, failed: Mapping[str, str], source: str) -> Finding:
    way = f" from {source} ({plan.interface})" if source else ""
    if not failed:
        return ok(Check.CONNECT, f"{tried} of {plan.ports.first}-{plan.ports.last} tried, all reached{way}")
    ports, whys = ", ".join(failed), ", ".join(sorted(set(failed.values())))
    reason = f"{len(failed)} of {tried} tried ports of {address} cannot be reached{way}: {ports}: {whys}"
    fix = f"open {plan.ports.first}-{plan.ports.last} on the head for this node; no answer mostly means a firewall"
    return fail(Check.CONNECT, reason, fix)


def judge_sharing(
    plan: LaunchPlan, looks: Mapping[int, LocalReport], meets: Mapping[int, ConnectivityReport]
) -> dict[int, list[Finding]]:
    """Every node must read what the head wrote, and the head what they wrote."""
    if len(plan.nodes) == 1 or not plan.shared_disk:
        return {}
    writers = {rank for rank, look in looks.items() if not has_failed(look, Check.RUN_ROOT, Check.DISK)}
    head = meets.get(0)
    found = {}
    for rank, meet in meets.items():
        if rank == 0:
            continue
        if head is None or not {0, rank} <= writers:
            found[rank] = [unknown(Check.SHARED, "cannot be tried where nothing can be written")]
        elif 0 in meet.tokens and rank in head.tokens:
            found[rank] = [ok(Check.SHARED, "what the head writes is read here, and the other way")]
        else:
            fix = "set `runs_root` to a directory on a disk that all nodes share"
            found[rank] = [
                fail(Check.SHARED, "the head's files in the run root are not seen here, or ours not there", fix)
            ]
    return found


def has_failed(look: LocalReport, *checks: Check) -> bool:
    return any(finding.check in checks and finding.result is Result.FAIL for finding in look.findings)
