"""The interface of a backend's node agents to the supervisor: start, check, end, prepare, requeue."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum

from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.history import History
from fsdpctl.supervise.notify import Notifier

MOUNT_WAIT_S = 60
"""For a host that has just started: it runs commands before its network disks are mounted."""


class Next(StrEnum):
    """What follows an attempt."""

    AGAIN = "again"  # another attempt, under the same supervisor
    REQUEUE = "requeue"  # give the nodes back to the scheduler and queue again
    LEAVE = "leave"


@dataclass(frozen=True)
class Step:
    """What follows an attempt, and the verdict on it."""

    next: Next
    verdict: Verdict
    exclude: tuple[str, ...] = ()  # nodes that a requeued job must not get


@dataclass(frozen=True)
class AttemptCheck:
    """The state of a running attempt's nodes."""

    lost: ControlFile | None = None  # why the attempt must end: a node without which it cannot continue
    unreachable: str | None = None  # nodes that do not answer now: only reported


class Agents(ABC):
    """The node agents of one run, as its supervisor handles them. Every method may be called again at any time.

    The defaults are for a backend without a scheduler.
    """

    disk_tries = 100
    """Maximum failures of the supervisor in a row on a full or absent disk."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        self.run, self.plan = run, plan
        self.notifier = Notifier(run, plan)

    def open_attempt(self) -> AttemptPaths | None:
        """Return the attempt to begin with; None where there is nothing to do."""
        return self.run.attempts()[-1]

    def describe_nodes(self, attempt: AttemptPaths) -> None:  # noqa: B027  most backends know their nodes beforehand
        """Write what the agents of a new attempt need beside the plan. Raise OSError."""

    def prepare(self, attempt: AttemptPaths) -> list[str]:
        """Replace nodes that cannot take part in the next attempt; return those still missing, one line each."""
        return []

    @abstractmethod
    def start(self, attempt: AttemptPaths) -> None:
        """Start every agent of the attempt that was not started yet. Raise LaunchError, with none left running."""

    @abstractmethod
    def is_over(self, attempt: AttemptPaths) -> bool:
        """Return whether no agent of the attempt is alive or can still start."""

    def check(self, attempt: AttemptPaths) -> AttemptCheck:
        """Return the state of a running attempt's nodes; handle signals of the scheduler."""
        return AttemptCheck()

    @abstractmethod
    def end(self, attempt: AttemptPaths, *, is_last: bool = True) -> list[str]:
        """End every process of the run on every node; return one line for each node where that is not confirmed.

        Unless it is the last attempt, the fork servers stay for the next one.
        """

    def machine(self, rank: int) -> tuple[str, str] | None:
        """Return what identifies the node in every profile, and its name; None if there is no other one to choose."""
        return None

    def decide(self, attempt: AttemptPaths, end: AttemptEnd, verdict: Verdict, history: History) -> Step:
        """Return what follows; `verdict` comes from `decide_next`. Only a scheduler continues a run after a stop."""
        if end.stop is not None:
            verdict = replace(verdict, restart=False)
        return Step(Next.AGAIN if verdict.restart else Next.LEAVE, verdict)

    def hand_back(self, attempt: AttemptPaths, step: Step) -> Verdict | None:
        """Requeue the run; return the verdict to record instead if the scheduler refuses."""
        raise NotImplementedError
