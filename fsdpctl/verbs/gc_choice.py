"""Choose which old runs `gc` removes, and of which it removes older checkpoints. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

HAS_OTHER_FILES = "it has files that its script or a user wrote, which may be its only result"


class Action(StrEnum):
    """What is done to a run."""

    REMOVE = "remove"  # its directory, which has no checkpoint and nothing else of a script or user
    PRUNE = "prune"  # all but its newest complete checkpoint
    KEEP = "keep"


@dataclass(frozen=True)
class OldRun:
    """One run, as `gc` sees it."""

    run_id: str
    job: str
    ended: float  # seconds since the epoch, when it last did anything
    bytes: int = 0
    prunable_bytes: int = 0  # of checkpoints older than the newest one, and of what saves left half done
    has_checkpoint: bool = False
    protected: str = ""  # why nothing of it may be removed
    has_other_files: bool = False  # of its script or a user: without a checkpoint they may be its only result


@dataclass(frozen=True)
class Limits:
    """What is old: all limits that are given must apply."""

    older_than_s: float | None = None
    keep: int | None = None  # newest runs of each job that stay
    max_bytes: int | None = None  # of all runs together: the oldest are removed until they fit


@dataclass(frozen=True)
class Choice:
    """What is done to a run, why, and the bytes that it frees."""

    run: OldRun
    action: Action
    reason: str
    freed: int = 0


def choose(runs: Sequence[OldRun], limits: Limits, now: float) -> list[Choice]:
    """Return a choice for each run, the oldest first."""
    runs = sorted(runs, key=lambda run: run.ended)
    ranks = _rank_by_job(runs)
    over = sum(run.bytes for run in runs) - limits.max_bytes if limits.max_bytes is not None else None
    choices = []
    for run in runs:
        choice = _choose_one(run, limits, now - run.ended, ranks[run.run_id], over)
        over = over - choice.freed if over is not None else None
        choices.append(choice)
    return choices


def _rank_by_job(runs: Sequence[OldRun]) -> Mapping[str, int]:
    """Return run id -> how many runs of the same job are newer."""
    ranks: dict[str, int] = {}
    newer: dict[str, int] = {}
    for run in reversed(runs):
        ranks[run.run_id] = newer.get(run.job, 0)
        newer[run.job] = ranks[run.run_id] + 1
    return ranks


def _choose_one(run: OldRun, limits: Limits, age_s: float, rank: int, over: int | None) -> Choice:
    if why := run.protected or _why_recent(limits, age_s, rank, over):
        return Choice(run, Action.KEEP, why)
    if not run.has_checkpoint:
        if run.has_other_files:
            return Choice(run, Action.KEEP, HAS_OTHER_FILES)
        return Choice(run, Action.REMOVE, "it has ended and has no checkpoint", run.bytes)
    if run.prunable_bytes:
        return Choice(run, Action.PRUNE, "its newest complete checkpoint stays", run.prunable_bytes)
    return Choice(run, Action.KEEP, "its only complete checkpoint is in it")


def _why_recent(limits: Limits, age_s: float, rank: int, over: int | None) -> str:
    if limits.older_than_s is not None and age_s < limits.older_than_s:
        return "it ended later than --older-than"
    if limits.keep is not None and rank < limits.keep:
        return "one of the newest runs of its job, by --keep"
    return "all runs fit into --max-size" if over is not None and over <= 0 else ""
