"""The watchdog: a rank that makes no progress is found from outside, whatever it hangs in.

A hanging rank cannot report itself, its peers only wait for it, and NCCL's and gloo's own time-outs take minutes
to half an hour. The agent reads the pulses of its ranks, lets all of them dump their stacks, and says which one
holds up the others: one that is stopped, one that waits for data, one whose stack is in no collective.
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
"""A node whose ranks all wait for others lets the node that holds them up speak first."""


@dataclass(frozen=True)
class Stall:
    """How long a rank has made no progress."""

    rank: int
    pulse: RankProgress
    age_s: float


def limit_s(pulse: RankProgress) -> float:
    """How long a rank may stay in its section: fixed for what is rare, by its own slow steps for a step."""
    if pulse.section is Section.END:
        return float("inf")
    if pulse.section is Section.STEP:
        return max(SLOW_STEPS * pulse.slow_step_s, MIN_STEP_LIMIT_S) if pulse.slow_step_s else LIMITS_S[Section.START]
    return LIMITS_S[pulse.section]


class Watchdog:
    """Looks at the pulses of one node's ranks."""

    def __init__(
        self, tag: processes.Tag, paths: NodePaths, ranks: range, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tag, self._paths, self._ranks, self._clock = tag, paths, ranks, clock
        self._last_look = clock()
        self._paused_until = 0.0

    def check(self) -> str | None:
        """Say which rank hangs, after all have dumped their stacks; None while all is well."""
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
        """The ranks over their limit; none while this very process was kept from running, too (suspend, SIGSTOP)."""
        now = self._clock()
        if now - self._last_look > MIN_STEP_LIMIT_S / 2:
            self._paused_until = now + MIN_STEP_LIMIT_S
        self._last_look = now
        if now < self._paused_until:
            return []
        return [stall for stall in self._ages() if stall.age_s > limit_s(stall.pulse)]

    def _ages(self) -> list[Stall]:
        now = self._clock()
        pulses = {
            rank: pulse
            for rank in self._ranks
            if (pulse := read_rank_progress(self._paths.rank_progress(rank))) is not None
        }
        return [Stall(rank, pulse, now - pulse.since) for rank, pulse in pulses.items()]


def blame(stalls: list[Stall], others: list[Stall], states: Mapping[int, str], stacks: Mapping[int, str]) -> str | None:
    """Name the rank that holds up the others, in words; None when all seem to wait for a rank elsewhere.

    It may be one of the `others`, whose time is not over yet: it began its last step after those that wait for it.
    """
    at_work = [*stalls, *(stall for stall in others if stall.pulse.section is not Section.END)]
    for stall in at_work:
        if states.get(stall.rank) in ("T", "t"):
            return _describe(stall, "its process is stopped")
    for stall in stalls:
        if stall.pulse.section is Section.DATA:
            return _describe(stall, "it waits for data")
    for stall in at_work:
        if stacks.get(stall.rank) and not is_waiting_for_peers(stacks[stall.rank]):
            return _describe(stall, "its peers wait for it")
    return None


def is_waiting_for_peers(stack: str) -> bool:
    """Whether a faulthandler dump shows the main thread in a collective, or in a backward pass that runs them."""
    main = stack.rpartition("Current thread")[2] or stack
    return "torch/distributed" in main or "_engine_run_backward" in main


def _describe(stall: Stall, why: str) -> str:
    pulse = stall.pulse
    where = f"no progress for {stall.age_s:.0f} s in {pulse.section} after step {pulse.step}"
    return f"rank {stall.rank} hangs: {why}, {where}"


def describe_waiting(stalls: list[Stall]) -> str:
    oldest = max(stalls, key=lambda stall: stall.age_s)
    return (
        f"no progress for {oldest.age_s:.0f} s after step {oldest.pulse.step}: all ranks of this node wait for others"
    )
