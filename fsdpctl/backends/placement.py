"""What the choice of a run's nodes depends on beside its profile: nodes that are held, and those that may be bad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fsdpctl.contract.plan import LaunchPlan


@dataclass(frozen=True)
class Avoid:
    """Nodes that a run must not get, or should not get; by machine, which is the same in every profile."""

    held: Mapping[str, str] = field(default_factory=dict)  # machine -> the hold that has it
    suspects: Sequence[str] = ()  # machines, the newest evidence first


@dataclass(frozen=True)
class Own:
    """The machines of the hold in which the run takes place."""

    hold: str
    machines: tuple[str, ...]


@dataclass(frozen=True)
class Placed:
    """A plan on chosen nodes."""

    plan: LaunchPlan
    avoided: tuple[str, ...] = ()  # suspects that it does not get
    used: tuple[str, ...] = ()  # suspects that it gets all the same
