"""Nodes that may be bad."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class SuspectNode:
    """One reason to suspect a node."""

    node: str  # as the profile or the scheduler names it
    address: str  # the same in every profile
    backend: str
    run_id: str
    attempt: int
    reason: str
    time: float  # seconds since the epoch
    until: float  # when it no longer counts
