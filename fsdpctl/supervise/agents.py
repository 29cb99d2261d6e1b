"""What differs between backends while a run is supervised: who starts agents, and who gives and takes nodes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum

from fsdpctl.contract.control_files import ControlFile
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.runs.verdict import AttemptEnd, Verdict
from fsdpctl.supervise.decide import History


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
class Look:
    """One look at the nodes of a running attempt."""

    lost: ControlFile | None = None  # why the attempt must end: a node without which it cannot continue
    unreachable: str | None = None  # nodes that do not answer now: reported, and nothing is ended for it


class Agents(ABC):
    """The node agents of one run, as its supervisor handles them. Every method may be called again at any time.

    The defaults fit a backend without a scheduler.
    """

    disk_tries = 100
    """How often in a row the supervisor may fail on a full or absent disk."""

    def __init__(self, run: RunPaths, plan: LaunchPlan) -> None:
        self.run, self.plan = run, plan

    def open_attempt(self) -> AttemptPaths | None:
        """Return the attempt to begin with; None where nothing is to be done here."""
        return self.run.attempts()[-1]

    def describe_nodes(self, attempt: AttemptPaths) -> None:  # noqa: B027  most backends know their nodes beforehand
        """Write what the agents of a new attempt need to know beside the plan. Raises OSError."""

    def prepare(self, attempt: AttemptPaths) -> list[str]:
        """Replace nodes that cannot take part in the next attempt; return those still missing, one line each."""
        return []

    @abstractmethod
    def start(self, attempt: AttemptPaths) -> None:
        """Start every agent of the attempt that was not started yet. Raises LaunchError, with none left running."""

    @abstractmethod
    def is_over(self, attempt: AttemptPaths) -> bool:
        """Return whether no agent of the attempt is alive, or will be."""

    def look(self, attempt: AttemptPaths) -> Look:
        """Look at the nodes of a running attempt, and act on what the scheduler has sent."""
        return Look()

    @abstractmethod
    def end(self, attempt: AttemptPaths) -> list[str]:
        """End every process of the run on every node; return what could not be confirmed gone, one line each."""

    def decide(self, attempt: AttemptPaths, end: AttemptEnd, verdict: Verdict, history: History) -> Step:
        """Return what follows; `verdict` has been through `decide_next`."""
        return Step(Next.AGAIN if verdict.restart else Next.LEAVE, verdict)

    def hand_back(self, attempt: AttemptPaths, step: Step) -> Verdict | None:
        """Requeue the run; return the verdict that counts instead where the scheduler refuses."""
        raise NotImplementedError
