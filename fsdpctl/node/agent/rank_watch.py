"""Watch the ranks of this node from outside, and report once a second what each of them is doing.

The agent does not judge: it sees its own ranks only, and they may wait for one of another node. `supervise/hang.py`
judges the whole world.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from fsdpctl.commands.torchrun import WARM_WORKER
from fsdpctl.contract.node_report import Activity, RankReport
from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.plan import HangLimits
from fsdpctl.contract.rank_progress import RankProgress, Section, read_rank_progress
from fsdpctl.node.agent.overdue import is_overdue, is_worth_a_look
from fsdpctl.node.agent.stacks import classify, force_stacks, read_stacks, request_stacks
from fsdpctl.node.os import processes
from fsdpctl.node.os.usage import Usage, find_wait, process_usage, tree_usage

LONGEST_LOOK_S = 2.0
"""What a time between two looks counts at most: if it was longer, this host was suspended, and its ranks with it."""
DOUBT_S = 3.0
"""Without a sign, after which children count, too, and every thread is looked at: both cost more."""
STACKS_EVERY_S = 3.0
"""How soon the stacks of a late rank are asked for again, at first: it may have moved on without a sign."""
ANSWER_S = 1.5
"""What a rank gets to write its stacks; one that waits for others or for a file needs some milliseconds."""
STACKS_RARELY_S = 60.0
"""For a rank that has been late for long."""
ECHO_S = 2.0
"""For how long after that what a rank computes and writes may be its stacks, and counts as no work."""
_CPU_SHARE = 0.05
_IO_BYTES = 4096


@dataclass
class _Seen:
    """What was seen of one rank at the last looks."""

    report: RankReport
    progress: RankProgress | None = None
    output: int = 0
    usage: Usage = field(default_factory=Usage)
    is_tree: bool = False
    stacks_s: float | None = None  # since they were asked for
    has_log: bool = False  # at the last look


class RankWatch:
    """The ranks of one node in one attempt. Call `look` about once a second."""

    def __init__(
        self,
        tag: processes.Tag,
        paths: NodePaths,
        ranks: range,
        metrics: Path,
        limits: HangLimits,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tag, self._paths, self._metrics, self._limits, self._clock = tag, paths, metrics, limits, clock
        self._seen = {rank: _Seen(RankReport(rank, is_up=False)) for rank in ranks}
        self._pids: dict[int, int] = {}
        self._last = clock()

    def look(self) -> tuple[RankReport, ...]:
        """Return the present report on each rank."""
        now = self._clock()
        passed_s, self._last = min(now - self._last, LONGEST_LOOK_S), now
        self._find_processes()
        for rank, seen in self._seen.items():
            seen.report = self._look_at(rank, seen, passed_s)
        self._ask_for_stacks()
        return tuple(seen.report for seen in self._seen.values())

    def _find_processes(self) -> None:
        living = {rank: pid for rank, pid in self._pids.items() if processes.start_ticks(pid) is not None}
        if len(living) < len(self._seen) or living != self._pids:
            living = rank_processes(self._tag)
        self._pids = living

    def _look_at(self, rank: int, seen: _Seen, passed_s: float) -> RankReport:
        pid, old = self._pids.get(rank), seen.report
        ended_s = self._ended_s(rank, seen, passed_s)
        if pid is None:
            return replace(old, is_up=False, ended_s=ended_s, sign_s=round(old.sign_s + passed_s, 1))
        progress = read_rank_progress(self._paths.rank_progress(rank))
        is_echo = seen.stacks_s is not None and seen.stacks_s < ECHO_S
        sign_s = 0.0 if self._has_sign(rank, progress, seen) else old.sign_s + passed_s
        idle_s = 0.0 if self._has_worked(pid, seen, passed_s) and not is_echo else old.idle_s + passed_s
        wait = find_wait(pid) if sign_s > DOUBT_S else None
        report = RankReport(rank, progress, round(sign_s, 1), round(idle_s, 1), ended_s=ended_s)
        if wait is not None:
            report = replace(report, state=wait.state, wait_channel=wait.channel)
        return self._with_stacks(report, seen, passed_s)

    def _ended_s(self, rank: int, seen: _Seen, passed_s: float) -> float | None:
        old = seen.report
        if old.ended_s is not None:
            return round(old.ended_s + passed_s, 1)
        has_begun = old.is_up or seen.has_log  # a warm rank with nothing left to do ends between two looks
        is_gone = has_begun and rank not in self._pids  # torchrun handles one that has failed
        seen.has_log = self._paths.rank_log(rank).exists()
        return 0.0 if is_gone or self._paths.rank_end(rank).exists() else None

    def _has_sign(self, rank: int, progress: RankProgress | None, seen: _Seen) -> bool:
        output = _size(self._paths.rank_log(rank)) + (_size(self._metrics) if progress is None else 0)
        has_sign = output != seen.output if progress is None else _signs(progress) != _signs(seen.progress)
        seen.progress, seen.output = progress, output
        return has_sign

    def _has_worked(self, pid: int, seen: _Seen, passed_s: float) -> bool:
        """Return whether the rank has used the processor or files since the last look; its children only when asked
        for the second time, since they were not counted before."""
        is_tree = seen.report.idle_s > DOUBT_S
        usage = tree_usage(pid) if is_tree else process_usage(pid)
        used_s = usage.cpu_s - seen.usage.cpu_s
        has_worked = used_s > _CPU_SHARE * passed_s or usage.io_bytes - seen.usage.io_bytes > _IO_BYTES
        is_comparable, seen.usage, seen.is_tree = is_tree == seen.is_tree, usage, is_tree
        return has_worked and is_comparable

    def _with_stacks(self, report: RankReport, seen: _Seen, passed_s: float) -> RankReport:
        """Add what the stacks show that were asked for at an earlier look, as long as nothing has moved since."""
        if report.sign_s < seen.report.sign_s:
            seen.stacks_s = None
            return report
        if seen.stacks_s is None:
            return report
        seen.stacks_s += passed_s
        activity, where = classify(read_stacks(self._paths, report.rank))
        if activity is Activity.UNKNOWN:  # not written yet, or it cannot write now
            activity, where = seen.report.activity, seen.report.where
        return replace(report, activity=activity, where=where)

    def _ask_for_stacks(self) -> None:
        """Ask all ranks, as soon as one of them may be late: it may wait for another of them."""
        late = [seen for seen in self._seen.values() if is_worth_a_look(seen.report, self._limits)]
        if any(seen.stacks_s is None or seen.stacks_s > _stacks_every_s(seen.report) for seen in late):
            request_stacks(self._paths, self._pids)
            for seen in self._seen.values():
                seen.stacks_s = 0.0
        for rank, seen in self._seen.items():
            if self._is_mute(seen) and rank in self._pids:
                force_stacks(self._pids[rank])

    def _is_mute(self, seen: _Seen) -> bool:
        """Return whether a rank will be taken for one that hangs, and has not answered since it was asked."""
        report = seen.report
        has_answered = report.activity is not Activity.UNKNOWN or report.state in ("", "T", "t", "D")
        return not has_answered and (seen.stacks_s or 0.0) > ANSWER_S and is_overdue(report, self._limits)


def _stacks_every_s(rank: RankReport) -> float:
    return min(max(STACKS_EVERY_S, rank.sign_s / 2), STACKS_RARELY_S)


def rank_processes(tag: processes.Tag) -> dict[int, int]:
    """Return global rank -> pid of the processes that torchrun started; the oldest one where a rank has children."""
    found: dict[int, int] = {}
    for pid in sorted(processes.find(tag), key=lambda pid: processes.start_ticks(pid) or 0):
        if (rank := processes.rank_of(pid)) is not None and not _is_warm_worker(pid):
            found.setdefault(rank, pid)
    return found


def _is_warm_worker(pid: int) -> bool:
    """Return whether a process is only between torchrun and a rank."""
    return WARM_WORKER.encode() in processes.command_line(pid)


def _signs(progress: RankProgress | None) -> tuple[int, ...]:
    """Return what changes with progress. Bytes that a thread saves beside training are none of a step."""
    if progress is None:
        return ()
    saved = progress.saved if progress.section in (Section.SAVE, Section.END) else 0
    return (progress.position, progress.signs, saved)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
