"""Judge over the ranks of all nodes whether a run hangs, and which rank the others wait for. Pure.

A rank that waits for a peer is no hang, however long the peer reads, saves, evaluates, compiles or starts. What counts
is the rank that is furthest behind: all others wait for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fsdpctl.contract.node_report import Activity, RankReport
from fsdpctl.contract.plan import HangLimits
from fsdpctl.contract.rank_progress import Section
from fsdpctl.node.agent.overdue import age_s, is_blocking, is_overdue

NOTICE_S = 30.0
"""When it is reported which ranks the others wait for."""
OUTAGE_FACTOR = 2.0
"""TCP doubles its intervals between retransmissions (RFC 6298), so that it may resume only after twice an outage."""


@dataclass(frozen=True)
class PlacedRank:
    """A rank and its node."""

    node_rank: int
    host: str
    report: RankReport


@dataclass(frozen=True)
class Hang:
    """Why an attempt makes no progress. Without a culprit, all ranks wait for each other."""

    reason: str
    culprit: PlacedRank | None
    others: tuple[PlacedRank, ...] = ()  # late, too
    what: str = ""  # of the culprit: the reason without rank and node


@dataclass(frozen=True)
class Missing:
    """Which ranks the others wait for; without any, each rank waits."""

    ranks: tuple[int, ...]
    text: str


def find_hang(ranks: Sequence[PlacedRank], limits: HangLimits, peer_timeout_s: float) -> Hang | None:
    """Return why the attempt must end; None while it makes progress, or its ranks wait for one that may take long.

    Ranks that all wait for the network are given time for an outage that is no lost node.
    """
    running = [rank for rank in ranks if rank.report.ended_s is None]
    if not running:
        return None
    if (stays := _find_staying(ranks, running, limits)) is not None:
        return _hang(stays, f"it stays, {_seconds(_left_s(ranks))} after other ranks have ended", running)
    last = _furthest_behind(running)
    blocking = [rank for rank in last if is_blocking(rank.report, limits)]
    if blocking:
        culprit = min(blocking, key=_certainty)
        return _hang(culprit, _describe_wait(culprit.report, is_alone=len(ranks) == 1), running)
    network_s = OUTAGE_FACTOR * peer_timeout_s
    if not all(is_overdue(rank.report, limits) and age_s(rank.report) > network_s for rank in last):
        return None
    if len(last) < len(running):
        return _hang(last[0], "it waits for ranks that are ahead of it", running)
    oldest = max(last, key=lambda rank: age_s(rank.report))
    return Hang(f"all ranks wait for each other: {_describe_age(oldest.report)}", None, tuple(running))


def find_missing(ranks: Sequence[PlacedRank]) -> Missing | None:
    """Return which ranks the others have been waiting for at the start, or anywhere in a script that reports nothing;
    None if they are not waiting."""
    running = [rank for rank in ranks if rank.report.ended_s is None]
    if not running:
        return None
    if all(rank.report.progress is None and rank.report.is_up for rank in running):
        return _find_missing_in_script(running) if len(running) == len(ranks) else None
    last = _furthest_behind(running)
    is_start = any(not rank.report.is_up or _section(rank.report) is Section.START for rank in last)
    late = [rank for rank in last if rank.report.sign_s > NOTICE_S]
    if not is_start or not late or len(last) == len(running):
        return None
    return _missing(late, _phase(late[0].report) if late[0].report.is_up else "has not started")


def find_waited_for(ranks: Sequence[PlacedRank], late_s: float) -> Missing | None:
    """Return the ranks that are in no collective, while all others have been waiting in one for so long."""
    waiting = [rank for rank in ranks if rank.report.activity is Activity.PEERS and rank.report.sign_s > late_s]
    others = [rank for rank in ranks if rank not in waiting]
    known = (Activity.WORKING, Activity.COMPILING)
    if waiting and others and all(rank.report.activity in known for rank in others):
        return _missing(others, f"{_phase(others[0].report)}{_at(others[0].report)}")
    return None


def _find_missing_in_script(ranks: Sequence[PlacedRank]) -> Missing | None:
    if (found := find_waited_for(ranks, NOTICE_S)) is not None:
        return found
    if any(age_s(rank.report) <= NOTICE_S for rank in ranks):
        return None
    places: dict[str, list[str]] = {}
    for rank in ranks:
        places.setdefault(rank.report.where or "an unknown place", []).append(f"rank {rank.report.rank} on {rank.host}")
    where = "; ".join(f"{', '.join(names)} in {place}" for place, names in places.items())
    return Missing((), f"no rank makes progress: {where}")


def _missing(late: Sequence[PlacedRank], what: str) -> Missing:
    numbers = tuple(rank.report.rank for rank in late)
    more = f" and {len(late) - 1} more" if len(late) > 1 else ""
    return Missing(numbers, f"the other ranks wait for rank {numbers[0]} on {late[0].host}{more}: {what}")


def _find_staying(ranks: Sequence[PlacedRank], running: Sequence[PlacedRank], limits: HangLimits) -> PlacedRank | None:
    """Return a rank of a user's script that does nothing more, though others have ended for long."""
    if len(running) == len(ranks) or _left_s(ranks) <= limits.leave_s:
        return None
    for rank in running:
        report = rank.report
        is_script = report.progress is None or report.progress.section is Section.SCRIPT
        is_idle = report.activity is Activity.PEERS or min(report.sign_s, report.idle_s) > limits.leave_s
        if is_script and is_idle:
            return rank
    return None


def _left_s(ranks: Sequence[PlacedRank]) -> float:
    return min((rank.report.ended_s for rank in ranks if rank.report.ended_s is not None), default=0.0)


def _furthest_behind(ranks: Sequence[PlacedRank]) -> list[PlacedRank]:
    position = min(_position(rank.report) for rank in ranks)
    return [rank for rank in ranks if _position(rank.report) == position]


def _position(report: RankReport) -> int:
    if not report.is_up:
        return -1
    return report.progress.position if report.progress is not None else 0


def _certainty(rank: PlacedRank) -> tuple[int, float, int]:
    """Order ranks that do not wait for others: the surest culprit first."""
    report = rank.report
    states = {"T": 0, "D": 1}
    kind = states.get(report.state, 2 if _section(report) is Section.DATA else 3)
    return kind, -report.idle_s, report.rank


def _hang(culprit: PlacedRank, why: str, running: Sequence[PlacedRank]) -> Hang:
    report = culprit.report
    what = f"hangs: {why}, {_describe_age(report)}"
    reason = f"node {culprit.node_rank}: rank {report.rank} {what}; it runs on {culprit.host}"
    return Hang(reason, culprit, tuple(rank for rank in running if rank is not culprit), what)


def _describe_wait(report: RankReport, *, is_alone: bool) -> str:
    if report.state == "T":
        return "its process is stopped"
    if report.state == "D":
        return f"it waits for a disk or a file server (kernel function {report.wait_channel or 'unknown'})"
    if _section(report) is Section.DATA:
        return f"it waits for data{_at(report)}"
    return f"{'it makes no progress' if is_alone else 'its peers wait for it'}{_at(report)}"


def _at(report: RankReport) -> str:
    return f" at {report.where}" if report.where else ""


def _describe_age(report: RankReport) -> str:
    return f"no progress for {_seconds(age_s(report))} {_phase(report)}"


def _phase(report: RankReport) -> str:
    progress = report.progress
    if progress is None:
        return "in the script" + (f" after step {report.script_step}" if report.script_step is not None else "")
    phase = f" ({progress.phase})" if progress.phase else ""
    return f"in {progress.section}{phase} after step {progress.step}"


def _section(report: RankReport) -> Section | None:
    return report.progress.section if report.progress is not None else None


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s"
