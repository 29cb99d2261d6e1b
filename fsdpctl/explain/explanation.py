"""What `explain` returns: values, of which `cli/explain.py` makes text."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from fsdpctl.contract import Cause, Phase, State
from fsdpctl.explain.categories import Category, Domain, Role


class Confidence(StrEnum):
    """How sure a diagnosis is."""

    CERTAIN = "certain"  # a process that saw it has recorded it
    LIKELY = "likely"  # it follows from what was recorded
    UNKNOWN = "not known"


@dataclass(frozen=True)
class FailedRank:
    """A rank that did not end well; with `rank` None, a whole node."""

    rank: int | None
    node_rank: int
    host: str
    gpu: int | None  # its local rank, where the run uses GPUs
    role: Role
    category: Category
    domain: Domain
    retry: bool  # whether another attempt may succeed without a change
    message: str = ""
    frames: tuple[str, ...] = ()  # the last ones of the user's code, the innermost last
    folded: int = 0  # frames of libraries and of fsdpctl that are left out
    exit_code: int | None = None  # negative for a signal
    step: int | None = None  # the last one that it reported
    time: float | None = None  # of the failure, seconds since the epoch


@dataclass(frozen=True)
class Diagnosis:
    """What ended the run or holds it up, and what to change."""

    category: Category
    domain: Domain
    retry: bool
    confidence: Confidence
    summary: str
    changes: tuple[str, ...] = ()  # the smallest first
    evidence: tuple[str, ...] = ()
    rule: str | None = None  # the id of the rule that applies
    docs: str = ""


@dataclass(frozen=True)
class PastAttempt:
    """One attempt of the history."""

    number: int
    state: State
    cause: Cause
    step: int
    reason: str
    restarted: bool


NOT_ENDED = (State.PLANNED, State.QUEUED, State.RUNNING)
"""States in which a diagnosis is of what the run waits for; a run that restarts has an attempt that ended."""


@dataclass(frozen=True)
class Explanation:
    """One run, explained. Without a diagnosis there is nothing to explain."""

    run_id: str
    state: State
    phase: Phase
    cause: Cause | None
    reason: str
    attempt: int
    diagnosis: Diagnosis | None
    ranks: tuple[FailedRank, ...] = ()
    history: tuple[PastAttempt, ...] = ()
