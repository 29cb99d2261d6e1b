"""Facts of a run -> what to change, as clusters' job reports have it. Pure: from measured numbers of this run only.

Why a run failed is not among them: `explain` has that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from fsdpctl.contract import Cause, State
from fsdpctl.contract.clock import format_clock
from fsdpctl.ledger.account import TimeUse
from fsdpctl.run_report.facts import Attempt, Facts

LOW_MFU = 0.25
LOW_BUSY = 0.6
MUCH_STALL = 0.05
GOOD_STALL = 0.02
MUCH_LOST = 0.1
MUCH_COMMUNICATION = 0.15
LITTLE_MEMORY = 0.5
_WARM = ("a warm start shortens restarts (`warm: true`), fewer restarts save most", "docs/restarts.md#warm-starts")
LOSSES = {
    TimeUse.START: _WARM,
    TimeUse.RESTART: _WARM,
    TimeUse.RESTORE: ("a faster disk for checkpoints shortens restarts", "docs/checkpoints.md"),
    TimeUse.COMPILE: ("`compile: false` saves it where a run is short", "docs/performance.md"),
    TimeUse.SAVE: ("`checkpoint: {mode: async}` or fewer checkpoints let training wait less", "docs/checkpoints.md"),
    TimeUse.REDONE: ("more frequent checkpoints lose fewer steps", "docs/checkpoints.md"),
    TimeUse.HANG: ("`hang: {after: ...}` finds a rank that makes no progress sooner", "docs/hangs.md"),
    TimeUse.END: ("the last save and evaluation took it; evaluate fewer sequences", "docs/trainer.md"),
}
"""What time is lost to, with what to change."""
MIN_S = 600.0
"""Shares of a shorter run are of its start, and say nothing about a long one."""


@dataclass(frozen=True)
class Note:
    """One thing that cost time or work, and what to do."""

    what: str
    change: str
    docs: str  # a page, and a part of it


def make_notes(facts: Facts) -> list[Note]:
    """Return all notes that apply, what usually costs most first."""
    return [note for rule in RULES for note in rule(facts)]


def _restarts(facts: Facts) -> Iterator[Note]:
    older = facts.attempts[:-1]
    failed = [attempt for attempt in older if attempt.state is State.FAILED]
    # That of a job which Slurm has requeued is STOPPED.
    lost = [attempt for attempt in older if attempt.cause is Cause.LOST and attempt not in failed]
    if not failed and not lost:
        return
    steps = facts.steps.step_s if facts.steps is not None else None
    lost_s = facts.repeated_steps * (steps or 0.0)
    again = f"; {plural(facts.repeated_steps, 'step')} {_was(facts.repeated_steps)} done again"
    cost = f", {duration(lost_s)} of work" if lost_s >= 1 else ""
    has_why = f"logs {facts.run_id} --errors --attempt {failed[-1].number}` has why" if failed else ""
    yield Note(
        f"{_describe_ends(failed, lost)}{again if facts.repeated_steps else ''}{cost}",
        f"`fsdpctl {has_why or f'events {facts.run_id}` has when'}"
        + ("; more frequent checkpoints lose fewer steps" if facts.repeated_steps else ""),
        "docs/restarts.md",
    )


def _describe_ends(failed: Sequence[Attempt], lost: Sequence[Attempt]) -> str:
    causes = ", ".join(dict.fromkeys(attempt.cause.replace("_", " ") for attempt in failed if attempt.cause))
    ends = [f"{plural(len(failed), 'attempt')} failed ({causes})"] if failed else []
    ends += [f"{plural(len(lost), 'attempt')} {_was(len(lost))} lost"] if lost else []
    return " and ".join(ends)


def _lost_time(facts: Facts) -> Iterator[Note]:
    ledger = facts.ledger
    if ledger is None or ledger.effective is None or ledger.counted_s < MIN_S or 1 - ledger.effective <= MUCH_LOST:
        return
    lost = {use: ledger.seconds[use] for use in LOSSES if use in ledger.seconds}
    largest = sorted(lost, key=lambda use: -lost[use])
    parts = ", ".join(f"{use} {lost[use] / ledger.counted_s:.0%}" for use in largest[:3])
    change, docs = LOSSES[largest[0]]
    yield Note(
        f"{1 - ledger.effective:.0%} of {format_clock(ledger.counted_s)} was no training ({parts})", change, docs
    )


def _saves(facts: Facts) -> Iterator[Note]:
    steps = facts.steps
    if steps is None or steps.save_stall_s is None or not steps.step_s:
        return
    between = steps.count / steps.num_saves * steps.step_s
    share = steps.save_stall_s / (between + steps.save_stall_s)
    if share <= MUCH_STALL or _waited_little_for_saves(facts):
        return
    every = ceil(steps.save_stall_s / GOOD_STALL / steps.step_s)
    yield Note(
        f"each save held up training for {steps.save_stall_s:.1f} s, {share:.0%} of the time",
        f"save every {rounded(every)} steps: {GOOD_STALL:.0%} of the time"
        + ("; `trainer.checkpoint.mode: async` writes beside training" if _is_sync(facts) else ""),
        "docs/checkpoints.md#asynchronous-saves",
    )


def _waited_little_for_saves(facts: Facts) -> bool:
    """Return whether rank 0 has recorded what it does, and hardly ever waited for a save: then something else made
    the steps of saves long."""
    ledger = facts.ledger
    if ledger is None or TimeUse.STEP not in ledger.seconds:
        return False
    return ledger.seconds.get(TimeUse.SAVE, 0.0) <= MUCH_STALL * ledger.counted_s


def _no_checkpoint(facts: Facts) -> Iterator[Note]:
    steps = facts.steps
    if steps is None or steps.num_saves or facts.checkpoints or steps.step_s is None:
        return
    if (lost := steps.count * steps.step_s) > MIN_S and facts.state is not State.SUCCEEDED:
        yield Note(
            f"no checkpoint is recorded after {duration(lost)} of steps: another start begins at step 0",
            "save at least once an hour, and when a stop is requested",
            "docs/own-scripts.md#saving-and-resuming",
        )


def _communication(facts: Facts) -> Iterator[Note]:
    exposed = facts.outcome.get("exposed_communication_share")
    if exposed is not None and exposed > MUCH_COMMUNICATION and facts.world_size > 1:
        yield Note(
            f"in the profiled steps {exposed:.0%} of the time was communication that computation did not hide",
            "shard within a node only (`mesh.strategy: HYBRID_SHARD`), or give steps more work: a larger micro_batch",
            "docs/trainer.md#strategies",
        )


def _utilization(facts: Facts) -> Iterator[Note]:
    mfu = facts.steps.mfu if facts.steps is not None else None
    if mfu is not None and mfu < LOW_MFU:
        yield Note(
            f"the GPUs reached {mfu:.1%} of their peak (MFU, median of all steps)",
            f"profile a few steps; `fsdpctl estimate {facts.job}` has what other settings would reach",
            "docs/trainer.md#model-flops-utilization",
        )


def _idle_gpus(facts: Facts) -> Iterator[Note]:
    if facts.busy is not None and facts.busy < LOW_BUSY and facts.used_s >= MIN_S:
        yield Note(
            f"the GPUs had work in {facts.busy:.0%} of the samples",
            "profile a few steps: they wait for data, for the CPU, for saves, or for restarts",
            "docs/trainer.md#profiling",
        )


def _memory(facts: Facts) -> Iterator[Note]:
    peak = facts.outcome.get("peak_memory_gib")
    totals = [gpu.memory_total for node in facts.nodes for gpu in node.gpus if gpu.memory_total]
    if not peak or not totals or not facts.has_gpus:
        return
    total = min(totals) / 2**30
    if peak < LITTLE_MEMORY * total:
        yield Note(
            f"at most {peak:.1f} of {total:.0f} GiB of GPU memory were used",
            "a larger micro_batch, or less recomputation, makes steps faster",
            "docs/trainer.md#memory",
        )


def _slow_ranks(facts: Facts) -> Iterator[Note]:
    for slow in facts.slow_ranks[:1]:
        where = f" on {slow.host}" if slow.host else ""
        yield Note(
            f"the others waited for rank {slow.rank}{where}, which became slow {plural(slow.times, 'time')}",
            f"compare the nodes with `fsdpctl doctor {facts.profile} --deep`, or leave that host out",
            "docs/trainer.md#slow-ranks",
        )


def _skipped(facts: Facts) -> Iterator[Note]:
    if facts.steps is not None and facts.steps.skipped:
        yield Note(
            f"{plural(facts.steps.skipped, 'step')} changed nothing, because loss or gradient were not finite",
            "a smaller learning rate, a longer warm-up, or bf16 instead of fp16",
            "docs/trainer.md#steps-that-are-not-finite",
        )


RULES: tuple[Callable[[Facts], Iterator[Note]], ...] = (
    _restarts,
    _lost_time,
    _no_checkpoint,
    _saves,
    _communication,
    _slow_ranks,
    _skipped,
    _utilization,
    _idle_gpus,
    _memory,
)


def _is_sync(facts: Facts) -> bool:
    return facts.configuration.get("trainer.checkpoint.mode") == "sync"


def rounded(number: int) -> int:
    """Return a number of two digits that counts, at least as large."""
    unit = int(10 ** max(0, len(str(number)) - 2))
    return ceil(number / unit) * unit


def _was(number: int) -> str:
    return "was" if number == 1 else "were"


def plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return a short time in its unit, a longer one as a clock."""
    if seconds < 0.1:
        return f"{seconds * 1000:.2g} ms"
    return f"{seconds:.3g} s" if seconds < 120 else format_clock(seconds)
