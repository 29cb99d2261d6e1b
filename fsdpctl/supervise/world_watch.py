"""Read what all agents report about their ranks, and judge it once it is complete and recent, twice: a hang is one only
if the next report of every node confirms it. Of a stopped process, the first of the two may be one before the limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import replace

from fsdpctl.contract.codec import find_json
from fsdpctl.contract.node_report import REPORT_EVERY_S, NodeReport, RankReport, read_report
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import NodeEnd
from fsdpctl.supervise.hang import NOTICE_S, Hang, Missing, PlacedRank, find_hang, find_missing

LOOK_EVERY_S = 0.5
RECENT_S = 5.0
"""How old a report may be: a file system may show it some seconds late."""


class WorldWatch:
    """The ranks of one attempt. Call `look` often."""

    def __init__(self, attempt: AttemptPaths, plan: LaunchPlan, clock: Callable[[], float] = time.monotonic) -> None:
        self.attempt, self._plan, self._clock = attempt, plan, clock
        self._reports: dict[int, tuple[NodeReport, float]] = {}  # node rank -> newest, and when it was first seen
        self._ended: dict[int, float] = {}  # node rank -> when its exit record was first seen
        self._next = 0.0
        self._suspicion: tuple[tuple[int, int] | None, dict[int, int]] | None = None  # what hangs, by which reports
        self._missing: Missing | None = None  # which ranks the others wait for
        self._reported: Missing | None = None
        self._again_s, self._again_at = 0.0, 0.0  # when another place of the same ranks is reported

    def look(self) -> Hang | None:
        """Return why the attempt hangs, once that is certain."""
        now = self._clock()
        if now < self._next:
            return None
        self._next = now + LOOK_EVERY_S
        ranks = self._read(now)
        self._missing = find_missing(ranks)
        limits, peer_timeout_s = self._plan.hang, self._plan.peer_timeout_s
        hang = find_hang(ranks, limits, peer_timeout_s)
        suspected = hang or find_hang(_a_report_later(ranks), limits, peer_timeout_s)
        if suspected is None:
            self._suspicion = None
            return None
        numbers = {rank: report.number for rank, (report, _) in self._reports.items() if rank not in self._ended}
        if self._suspicion is None or self._suspicion[0] != _identity(suspected):
            self._suspicion = (_identity(suspected), numbers)
        is_confirmed = all(number > self._suspicion[1].get(rank, 0) for rank, number in numbers.items())
        return hang if is_confirmed else None

    def new_missing(self) -> Missing | None:
        """Return which ranks the others wait for if that is to be reported: other ranks at once, another place of the
        same ones after 30 s, a minute, two."""
        found, now = self._missing, self._clock()
        if found is None or found == self._reported:
            return None
        is_other = self._reported is None or found.ranks != self._reported.ranks
        if not is_other and now < self._again_at:
            return None
        self._again_s = NOTICE_S if is_other else 2 * self._again_s
        self._reported, self._again_at = found, now + self._again_s
        return found

    def _read(self, now: float) -> list[PlacedRank]:
        """Return all ranks of the attempt; none unless there is a recent report on every node that has not ended."""
        found: list[PlacedRank] = []
        for node in self._plan.nodes:
            paths = self.attempt.node(node.rank)
            report = read_report(paths.heartbeat)
            seen = self._reports.get(node.rank)
            if report is not None and report.ranks and (seen is None or report.number != seen[0].number):
                seen = self._reports[node.rank] = (report, now)
            if find_json(NodeEnd, paths.end) is not None:
                ended_s = now - self._ended.setdefault(node.rank, now)
                ranks = self._plan.ranks_of(node.rank)
                found += [PlacedRank(node.rank, node.id, RankReport(rank, ended_s=ended_s)) for rank in ranks]
                continue
            if seen is None or now - seen[1] > RECENT_S:
                return []
            found += [PlacedRank(node.rank, node.id, rank) for rank in seen[0].ranks]
        return found


def _a_report_later(ranks: Iterable[PlacedRank]) -> list[PlacedRank]:
    """Return what the next reports will be about stopped processes, which make no progress."""
    return [replace(rank, report=_later(rank.report)) if rank.report.state == "T" else rank for rank in ranks]


def _later(rank: RankReport) -> RankReport:
    return replace(rank, sign_s=rank.sign_s + REPORT_EVERY_S, idle_s=rank.idle_s + REPORT_EVERY_S)


def _identity(hang: Hang) -> tuple[int, int] | None:
    """Return what must be the same for a hang to be confirmed: the rank and how far it was."""
    if hang.culprit is None:
        return None
    progress = hang.culprit.report.progress
    return hang.culprit.report.rank, progress.position if progress is not None else 0
