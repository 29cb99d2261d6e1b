"""The end of an attempt: the facts, and the verdict that is stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fsdpctl.contract import Cause, State
from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.records import NodeEnd, Outcome


@dataclass(frozen=True)
class AttemptEnd:
    """The facts about an attempt when none of its agents is alive."""

    num_nodes: int
    ends: Mapping[int, NodeEnd]  # by node rank; a node without an exit record is missing
    outcome: Outcome | None
    stop: ControlFile | None
    abort: ControlFile | None
    full_disk: str = ""  # what to add to a reason if the disk is full
    has_older: bool | None = None  # whether the run has a checkpoint; None if only the user's script knows


@dataclass(frozen=True)
class Verdict:
    """The verdict on an attempt: the state of the run, why, and whether the run restarts by itself."""

    state: State
    reason: str  # text only: no decision depends on it
    restart: bool = False
    step: int = 0  # the newest that the run had reached
    is_stranded: bool = (
        False  # the scheduler took the nodes and does not requeue the run; a new submission continues it
    )
    cause: Cause = Cause.UNKNOWN
    exception: str = ""  # what ended the first rank, and where: equal texts are the same failure
    saved: float = 0.0  # own scripts: when the checkpoint directory was last changed, seconds since the epoch
    hosts: tuple[str, ...] = ()  # of the attempt, by node rank; "" where not known
    step_time: float = 0.0  # when the attempt's newest step ended, seconds since the epoch; 0: not known
