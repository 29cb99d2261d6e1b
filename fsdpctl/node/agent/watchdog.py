"""The watchdog: finds a rank that makes no progress from outside, whatever it hangs in.

A hanging rank cannot report itself, its peers only wait for it, and the timeouts of NCCL and gloo take minutes to
half an hour. The agent reads the progress of its ranks, makes all of them dump their stacks, and reports which one
blocks the others: one that is stopped, one that waits for data, one whose stack is in no collective.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fsdpctl.contract.paths import NodePaths
from fsdpctl.contract.rank_progress import RankProgress, Section, read_rank_progress
from fsdpctl.node.agent.stacks import dump_stacks, process_state, rank_processes
from fsdpctl.node.os import processes

LIMITS_S = {Section.START: 1800.0, Section.DATA: 600.0, Section.SAVE: 1800.0, Section.EVALUATE: 1800.0}
MIN_STEP_LIMIT_S = 10.0
SLOW_STEPS = 3.0
BLAME_PAUSE_S = 3.0
"""How long a node whose ranks all wait for others delays its report, so that the blocking node reports first."""


@dataclass(frozen=True)
class Stall:
    """How long a rank has made no progress."""

    rank: int
    progress: RankProgress
    age_s: float


def limit_s(progress: RankProgress) -> float:
    """Return the seconds that a rank may stay in its section: a multiple of its slow steps for a step, else fixed."""
    if progress.section is Section.END:
        return float("inf")
    if progress.section is not Section.STEP:
        return LIMITS_S[progress.section]
    slow_step_s = progress.slow_step_s
    return max(SLOW_STEPS * slow_step_s, MIN_STEP_LIMIT_S) if slow_step_s else LIMITS_S[Section.START]


class Watchdog:
    """Watches the progress of one node's ranks."""

    def __init__(
        self, tag: processes.Tag, paths: NodePaths, ranks: range, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tag, self._paths, self._ranks, self._clock = tag, paths, ranks, clock
        self._last_look = clock()
        self._paused_until = 0.0

    def check(self) -> str | None:
        """Return which rank hangs, as text, after all have dumped their stacks; None while there is none."""
        stalls = self.find_stalls()
        if not stalls:
            return None
        pids = rank_processes(self._tag)
        stacks = dump_stacks(self._paths, pids)
        states = {rank: process_state(pid) for rank, pid in pids.items()}
        late = {stall.rank for stall in stalls}
        culprit = blame(stalls, [stall for stall in self._ages() if stall.rank not in late], states, stacks)
        if culprit is None:
            time.sleep(BLAME_PAUSE_S)
        return culprit or describe_waiting(stalls)

    def find_stalls(self) -> list[Stall]:
        """Return the ranks over their limit; none while this process itself was suspended (sleep, SIGSTOP)."""
        now = self._clock()
        if now - self._last_look > MIN_STEP_LIMIT_S / 2:
            self._paused_until = now + MIN_STEP_LIMIT_S
        self._last_look = now
        if now < self._paused_until:
            return []
        return [stall for stall in self._ages() if stall.age_s > limit_s(stall.progress)]

    def _ages(self) -> list[Stall]:
        now = self._clock()
        found = {rank: read_rank_progress(self._paths.rank_progress(rank)) for rank in self._ranks}
        return [Stall(rank, progress, now - progress.since) for rank, progress in found.items() if progress is not None]


def blame(stalls: list[Stall], others: list[Stall], states: Mapping[int, str], stacks: Mapping[int, str]) -> str | None:
    """Return which rank blocks the others, as text; None when all seem to wait for a rank on another node.

    It may be one of the `others`, still under their limit: it began its last step after those that wait for it.
    """
    at_work = [*stalls, *(stall for stall in others if stall.progress.section is not Section.END)]
    for stall in at_work:
        if states.get(stall.rank) in ("T", "t"):
            return _describe(stall, "its process is stopped")
    for stall in stalls:
        if stall.progress.section is Section.DATA:
            return _describe(stall, "it waits for data")
    for stall in at_work:
        if stacks.get(stall.rank) and not is_waiting_for_peers(stacks[stall.rank]):
            return _describe(stall, "its peers wait for it")
    return None


def is_waiting_for_peers(stack: str) -> bool:
    """Return True if a faulthandler dump shows the main thread in a collective, or in a backward pass with some."""
    main = stack.rpartition("Current thread")[2] or stack
    return "torch/distributed" in main or "_engine_run_backward" in main


def _describe(stall: Stall, why: str) -> str:
    progress = stall.progress
    where = f"no progress for {stall.age_s:.0f} s in {progress.section} after step {progress.step}"
    return f"rank {stall.rank} hangs: {why}, {where}"


def describe_waiting(stalls: list[Stall]) -> str:
    oldest = max(stalls, key=lambda stall: stall.age_s)
    step = oldest.progress.step
    return f"no progress for {oldest.age_s:.0f} s after step {step}: all ranks of this node wait for others"
