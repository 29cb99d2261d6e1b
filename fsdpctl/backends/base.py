"""What a backend must be able to do. A launcher is a module that has these functions; `table.py` lists them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from fsdpctl.contract import State
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan


@dataclass(frozen=True)
class View:
    """What only the backend knows of a run: whether a queued or running job of it exists, and what it says."""

    state: Literal["none", "queued", "running", "unknown"]
    reason: str = ""
    final: State | None = None  # what the backend knows of the end, where the run directory cannot say
    is_stranded: bool = False  # the backend took the nodes and brings the run back no more


class Launcher(Protocol):
    """The functions of a launcher module."""

    def start(self, run: RunPaths, plan: LaunchPlan) -> None:
        """Start the newest submission of a complete run directory, detached from this process.

        All or nothing: raises LaunchError, with nothing left behind, when a host or the scheduler refuses.
        """

    def observe(self, runs: Sequence[RunPaths]) -> Mapping[str, View]:
        """Ask about many runs at once: run id -> View. Never raises because one host or scheduler is down."""

    def stop(self, run: RunPaths) -> bool:
        """Ask the newest attempt to save and leave; False if nothing runs."""

    def cancel(self, run: RunPaths) -> bool:
        """End the run now; False if nothing was running. Raises FsdpctlError naming what would not die."""


class Agents(Protocol):
    """The node agents of one run, as its supervisor handles them. Everything may be called again at any time."""

    def prepare(self, attempt: AttemptPaths) -> list[str]:
        """After `attempt`, take spares for nodes that cannot go on; the nodes still missing and why, one line each."""

    def start(self, attempt: AttemptPaths) -> None:
        """Start every agent of the attempt that was not started yet. Raises LaunchError, with none left running."""

    def is_over(self, attempt: AttemptPaths) -> bool:
        """Whether no agent of the attempt is alive."""

    def find_lost(self, attempt: AttemptPaths) -> str | None:
        """The node that the agents wait for in vain, in words; None while all is well."""

    def describe_silence(self, attempt: AttemptPaths) -> str | None:
        """Which nodes do not answer at the moment, in words: what is told before, or without, anything being ended."""

    def end(self, attempt: AttemptPaths) -> list[str]:
        """End every process of the run on every node; what could not be proven gone, one line each."""
