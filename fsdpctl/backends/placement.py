"""What the choice of a run's nodes depends on beside its profile: nodes that are held, and nodes under suspicion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Avoid:
    """Nodes that a run must not get, or should not get; by machine, which is the same in every profile."""

    held: Mapping[str, str] = field(default_factory=dict)  # machine -> the hold that has it
    suspects: Mapping[str, str] = field(default_factory=dict)  # machine -> why


@dataclass(frozen=True)
class Own:
    """The machines of the hold in which the run takes place."""

    hold: str
    machines: tuple[str, ...]
