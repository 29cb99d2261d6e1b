"""What the merged flight records show, as values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class FlightKind(StrEnum):
    """Why an operation does not complete, the surest first."""

    MISMATCH = "mismatch"  # ranks called different operations, or with other shapes or types
    MISSING = "missing"  # some ranks have not entered it
    UNRECORDED = "unrecorded"  # all ranks that left a record are in it; the others left none
    ALL_ENTERED = "all_entered"  # all ranks are in it, and they agree: the network, a device, or it was just running


@dataclass(frozen=True)
class FlightSide:
    """Ranks that were in the same place."""

    ranks: tuple[int, ...]
    has_entered: bool
    op: str = ""  # the operation in which they wait; empty: in none
    group: str = ""
    inputs: tuple[str, ...] = ()  # Float[4,3]
    outputs: tuple[str, ...] = ()
    stack: tuple[str, ...] = ()  # of Python, the most recent call first: FILE:LINE FUNCTION


@dataclass(frozen=True)
class FlightFinding:
    """The operation in which a run waits."""

    kind: FlightKind
    group: str  # name and description of the process group
    backend: str  # nccl, gloo
    op: str
    sequence: int  # of the collective within its group, from 1
    ranks_entered: tuple[int, ...]
    ranks_waiting: tuple[int, ...]  # for which it, or after a disagreement a later one, has not completed
    ranks_missing: tuple[int, ...] = ()
    ranks_unrecorded: tuple[int, ...] = ()  # members of the group that left no record
    sides: tuple[FlightSide, ...] = ()  # the largest first; those that have not entered it are last
