"""top: runs, their nodes and ranks as they are now. Everything is read from the run directories."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from statistics import median

from fsdpctl.contract import Cause, Phase, State
from fsdpctl.contract.first_failure import headline
from fsdpctl.contract.node_report import Activity, GpuSample, RankReport, read_report
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.rank_progress import Section
from fsdpctl.logs.failure import find_root_cause
from fsdpctl.logs.sources import read_errors
from fsdpctl.runs.evidence import AttemptFacts
from fsdpctl.runs.metrics import recent_metrics
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import Listed, list_runs
from fsdpctl.verbs.status import SPEED_STEPS, RunStatus, lines_of, read_statuses, step_times

SCAN_EVERY_S = 15.0
"""How often all runs are looked at for those that have begun; those that are known are read every time."""


@dataclass(frozen=True)
class TopRank:
    """One rank, as its agent reported it last."""

    rank: int
    is_up: bool  # its process exists
    has_ended: bool  # it finished its script without an error
    section: Section | None  # what it is doing; null for a script that does not report it
    step: int | None
    age_s: float  # seconds since its last sign of progress
    state: str  # of its process, as in proc(5), once it is late
    activity: Activity  # what its stack shows, once it is late
    where: str  # where it waits or works, once it is late
    is_slow: bool  # the others wait for it in each step
    gpu: GpuSample | None


@dataclass(frozen=True)
class TopNode:
    """One node of the newest attempt."""

    node: int  # node rank
    host: str | None
    heartbeat_s: float | None  # seconds since its last heartbeat
    ranks: tuple[TopRank, ...]
    gpus: tuple[GpuSample, ...]


@dataclass(frozen=True)
class TopRun:
    """One run with its nodes and ranks."""

    run_id: str
    state: State
    phase: Phase
    cause: Cause | None
    reason: str
    attempt: int
    step: int | None
    total_steps: int | None
    loss: float | None
    tokens_per_s: float | None  # over the last 20 steps
    mfu: float | None  # model FLOPs utilization of the newest step, if the metrics have it
    eta_s: float | None
    step_s: float | None  # median of the last 20 steps, in seconds
    step_min_s: float | None
    step_max_s: float | None
    slow_ranks: tuple[int, ...]
    error: str | None  # the first failure of the newest attempt, in one line
    run_dir: str
    nodes: tuple[TopNode, ...]


class TopReader:
    """Reads the runs that are alive, or the chosen ones, again and again; what has ended is not read twice."""

    def __init__(self, run: RunPaths | None) -> None:
        self._chosen = run
        self._ended: dict[str, RunRecord | None] = {}
        self._living: list[Listed] = []
        self._next_scan = 0.0

    def read(self) -> list[TopRun]:
        """Return the runs now, the newest first; without a living one, the newest."""
        if time.monotonic() >= self._next_scan:
            self._scan()
        statuses = read_statuses(self._living)
        return [
            _read_run(run.paths, status)
            for run in self._living
            if isinstance(status := statuses[run.run_id], RunStatus)
        ]

    def _scan(self) -> None:
        self._next_scan = time.monotonic() + SCAN_EVERY_S
        runs = [run for run in list_runs() if run.record is not None]
        if self._chosen is not None:
            self._living = [run for run in runs if run.paths == self._chosen]
            return
        open_runs = [run for run in runs if self._ended.get(run.run_id) != run.record]
        for run_id, status in read_statuses(open_runs, with_speed=False).items():
            if isinstance(status, RunStatus) and not status.state.is_alive:
                self._ended[run_id] = next(run.record for run in open_runs if run.run_id == run_id)
        self._living = [run for run in open_runs if self._ended.get(run.run_id) != run.record] or runs[:1]


def _read_run(paths: RunPaths, status: RunStatus) -> TopRun:
    attempts = [attempt for attempt in paths.attempts() if attempt.number == status.attempt]
    attempt = AttemptFacts(attempts[0]) if attempts else None
    lines = lines_of(recent_metrics(paths.metrics, SPEED_STEPS + 1), status.attempt) if status.step is not None else []
    newest = lines[-1] if lines else {}
    slow = _slow_ranks(newest.get("slow_ranks")) if status.state is State.RUNNING else ()
    times = _step_times(lines)
    mfu = newest.get("mfu")
    return TopRun(
        run_id=status.run_id,
        state=status.state,
        phase=status.phase,
        cause=status.cause,
        reason=status.reason,
        attempt=status.attempt,
        step=status.step,
        total_steps=status.total_steps,
        loss=status.loss,
        tokens_per_s=status.speed.tokens_per_s if status.speed else None,
        mfu=float(mfu) if isinstance(mfu, int | float) else None,
        eta_s=status.speed.eta_s if status.speed and status.state.is_alive else None,
        step_s=median(times) if times else None,
        step_min_s=min(times, default=None),
        step_max_s=max(times, default=None),
        slow_ranks=slow,
        error=_first_error(attempt) if attempt is not None else None,
        run_dir=status.run_dir,
        nodes=tuple(_read_nodes(attempt, status, slow)) if attempt is not None else (),
    )


def _read_nodes(attempt: AttemptFacts, status: RunStatus, slow: Sequence[int]) -> Iterator[TopNode]:
    for node in attempt.nodes:
        report = read_report(node.heartbeat)
        gpus = report.gpus if report is not None and status.state.is_alive else ()
        reports = report.ranks if report is not None and status.state.is_alive else ()
        ranks = [_rank(one, gpus[index] if index < len(gpus) else None, slow) for index, one in enumerate(reports)]
        yield TopNode(node.node_rank, attempt.host(node.node_rank), _heartbeat_s(node), tuple(ranks), gpus)


def _rank(report: RankReport, gpu: GpuSample | None, slow: Sequence[int]) -> TopRank:
    progress = report.progress
    return TopRank(
        rank=report.rank,
        is_up=report.is_up,
        has_ended=report.ended_s is not None,
        section=progress.section if progress is not None else None,
        step=progress.step if progress is not None else report.script_step,
        age_s=report.sign_s,
        state=report.state,
        activity=report.activity,
        where=report.where,
        is_slow=report.rank in slow,
        gpu=gpu,
    )


def _heartbeat_s(node: NodePaths) -> float | None:
    with suppress(OSError):
        return max(0.0, time.time() - node.heartbeat.stat().st_mtime)
    return None


def _slow_ranks(value: object) -> tuple[int, ...]:
    """Return the slow ranks of a line of metrics; a user's script may have written anything."""
    return tuple(sorted(int(rank) for rank in value if str(rank).isdecimal())) if isinstance(value, dict) else ()


def _step_times(lines: Sequence[dict[str, object]]) -> list[float]:
    try:
        return step_times(lines)
    except (KeyError, TypeError, ZeroDivisionError):
        return []


def _first_error(attempt: AttemptFacts) -> str | None:
    """Return the first failure of a rank so far, in one line."""
    cause = find_root_cause(read_errors(attempt.paths), attempt.ends, attempt.abort)
    return f"rank {cause.first.rank}: {headline(cause.first)}" if cause is not None else None
