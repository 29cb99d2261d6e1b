"""What torch's flight recorder knows of one rank: the collectives that it entered, the newest last.

A rank writes it when its agent asks for it and when it fails, and `explain/flight` merges those of all ranks.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FlightGroup:
    """A process group. torch counts the collectives of each of its backends by themselves."""

    backend: str  # nccl, gloo
    name: str
    description: str = ""
    ranks: tuple[int, ...] = ()  # global ranks; empty where they are not known


@dataclass(frozen=True)
class FlightEntry:
    """One operation. Those of one coalesced call have the same number, and the last of them ends it."""

    group: int  # index into the groups of the record
    op: str  # all_reduce, send 0->1
    sequence: int
    is_p2p: bool = False  # counted apart from collectives
    is_done: bool = False
    inputs: tuple[str, ...] = ()  # Float[4,3]
    outputs: tuple[str, ...] = ()
    stack: int = -1  # index into the stacks of the record


@dataclass(frozen=True)
class FlightRecord:
    """All that was recorded on one rank."""

    groups: tuple[FlightGroup, ...] = ()
    entries: tuple[FlightEntry, ...] = ()
    stacks: tuple[str, ...] = ()  # of Python, the most recent call first, one per line: FILE:LINE FUNCTION
    has_stacks: bool = True  # it is written without them first: torch takes seconds to find them
    problem: str = ""  # why there is nothing
