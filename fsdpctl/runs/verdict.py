"""How an attempt ended: what is left of it, and the verdict that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fsdpctl.contract import Cause, State
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.records import NodeEnd, Outcome


@dataclass(frozen=True)
class AttemptEnd:
    """All that is left of an attempt when none of its agents is alive."""

    num_nodes: int
    ends: Mapping[int, NodeEnd]  # by node rank; a node whose agent left no exit record is missing
    outcome: Outcome | None
    stop: ControlFile | None
    abort: ControlFile | None
    full_disk: str = ""  # what to add to a reason where the disk has no room
    has_older: bool | None = None  # whether the run has a checkpoint; None where only the user's script knows


@dataclass(frozen=True)
class Verdict:
    """One attempt judged: the state that it leaves the run in, why, and whether the run restarts by itself."""

    state: State
    reason: str  # for people: no decision reads it
    restart: bool = False
    step: int = 0  # the newest that the run had reached
    is_stranded: bool = False  # the scheduler took the nodes and does not requeue the run; a new submission would
    cause: Cause = Cause.UNKNOWN
