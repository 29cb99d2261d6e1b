"""The backends, one row each. A part is imported when it is first needed."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from fsdpctl.backends.base import (
    CopyHosts,
    Holding,
    JobArrays,
    JobUsage,
    Launcher,
    Placement,
    Planning,
    Prediction,
    ProbeTransport,
    ShellCommand,
)
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fsdpctl.supervise.agents import Agents


@dataclass(frozen=True)
class Backend:
    """One row: the traits of a backend; its parts are modules of its folder."""

    name: str
    runs_here: bool = False  # ranks run on the submitting machine: their needs can be checked here
    has_scheduler: bool = False  # it chooses the nodes and keeps runs alive; else a detached supervisor does
    has_host_keys: bool = False
    doctor_nodes: int = 1  # how many nodes doctor checks, where a profile lists none

    @property
    def launcher(self) -> Launcher:
        return cast(Launcher, self._part("launcher"))

    @property
    def planning(self) -> Planning:
        return cast(Planning, self._part("planning"))

    @property
    def placement(self) -> Placement:
        return cast(Placement, self._part("placement"))

    @property
    def holding(self) -> Holding:
        return cast(Holding, self._part("holding"))

    def open_agents(self, run: RunPaths, plan: LaunchPlan) -> Agents:
        """Return the node agents of a run, for its detached supervisor."""
        return cast("Agents", self._part("agents").open_agents(run, plan))

    def open_probe_transport(self, plan: LaunchPlan) -> ProbeTransport:
        """Return a transport to a plan's nodes; the caller closes it. Raise LaunchError if there are none now."""
        return cast(ProbeTransport, self._part("probe_transport").open_probe_transport(plan))

    def open_copy_hosts(self, run: RunPaths, plan: LaunchPlan) -> CopyHosts:
        """Return the hosts that may have checkpoints of a run, where they share no disk."""
        return cast(CopyHosts, self._part("sync.copy_hosts").open_copy_hosts(run, plan))

    def shell_command(self, run: RunPaths, plan: LaunchPlan, node_rank: int, *, is_terminal: bool) -> ShellCommand:
        """Return the command that opens a shell on a node, in the environment of its ranks. Raise FsdpctlError."""
        return cast(ShellCommand, self._part("shell").shell_command(run, plan, node_rank, is_terminal=is_terminal))

    def predict(self, plan: LaunchPlan, save_s: float = 0.0) -> Prediction:
        """Return what the scheduler will do to a run. `save_s`: how long its newest checkpoint took; 0 without one."""
        return cast(Prediction, self._part("predict").predict(plan, save_s)) if self.has_scheduler else Prediction()

    def preview(self, plan: LaunchPlan) -> dict[str, Any]:
        """Return what the scheduler gets: name -> text of a file, or a command."""
        return cast("dict[str, Any]", self._part("preview").preview(plan)) if self.has_scheduler else {}

    def stop_all(self, runs: Sequence[RunPaths], report: Callable[[str], None]) -> list[RunPaths]:
        """Stop many runs, with few queries to a scheduler; return those that were alive. `report`: as for `stop`."""
        if self.has_scheduler:
            return cast("list[RunPaths]", self._part("launcher").stop_all(runs, report))
        return [run for run in runs if self.launcher.stop(run, report)]

    @property
    def job_arrays(self) -> JobArrays | None:
        """Return how several runs start as one job; None without a scheduler."""
        return cast(JobArrays, self._part("job_arrays")) if self.has_scheduler else None

    def job_usage(self, runs: Sequence[RunPaths]) -> dict[str, JobUsage]:
        """Return run id -> what its jobs have used, where the scheduler keeps accounts."""
        return cast("dict[str, JobUsage]", self._part("job_usage").read_job_usage(runs)) if self.has_scheduler else {}

    def trust_hosts(self, plan: LaunchPlan, report: Callable[[str], None]) -> None:
        """Store the host keys that are not known yet; `report` gets each one beforehand."""
        if not self.has_host_keys:
            raise UsageError(f"backend {self.name} reaches its nodes without ssh: there are no host keys")
        self._part("trust").trust_hosts(plan, report)

    def _part(self, name: str) -> ModuleType:
        return importlib.import_module(f"fsdpctl.backends.{self.name}.{name}")


ROWS = (
    Backend("local", runs_here=True),
    Backend("slurm", has_scheduler=True, doctor_nodes=2),  # the fewest that show the network between nodes
    Backend("ssh", has_host_keys=True),
)


def get_backend(name: str) -> Backend:
    """Return the row of a backend. Raise FsdpctlError for one that this version does not have."""
    for row in ROWS:
        if row.name == name:
            return row
    raise FsdpctlError(f"this version of fsdpctl has no backend {name}")
