"""Runs and checkpoints that are removed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class CollectedRun:
    """A run that `gc` has removed, in whole or in part, or would remove."""

    run_id: str
    action: Literal["remove", "prune"]  # `prune`: all but its newest complete checkpoint
    bytes: int  # that this frees, or would free
    ended: float  # seconds since the epoch, when it last did anything
    checkpoints: tuple[str, ...]  # that were removed
    problem: str | None  # why nothing was removed after all


@dataclass(frozen=True)
class Collected:
    """What `gc` has removed, or with `dry_run` would remove."""

    dry_run: bool
    runs: tuple[CollectedRun, ...]  # the oldest first
    kept: Mapping[str, str]  # run id and why nothing of it is removed
