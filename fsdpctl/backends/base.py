"""The interface of a backend: the functions of its `launcher` module, and its optional parts.

Each backend is one folder, and `table.py` has one row for it, with its traits. A part is a module of that folder with a
fixed name; docs/architecture.md lists all, and which of them only some backends have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from fsdpctl.backends.placement import Avoid, Own, Placed
    from fsdpctl.contract import Phase, State
    from fsdpctl.contract.formats.manifest import Manifest
    from fsdpctl.contract.paths import HoldPaths, RunPaths
    from fsdpctl.contract.plan import Device, LaunchPlan, PlannedNode, SlurmPlan, SshPlan
    from fsdpctl.contract.problems import Problem
    from fsdpctl.holds.record import Hold
    from fsdpctl.node.queries.checkpoint_copies import HostCopy
    from fsdpctl.runs.evidence import RunFacts


@dataclass(frozen=True)
class View:
    """What only the backend knows about a run: whether it is queued or running, and why."""

    state: Literal["none", "queued", "running", "unknown"]
    reason: str = ""
    final: State | None = None  # the state at the end, where the run directory does not have it
    is_stranded: bool = False  # the scheduler took the nodes and does not requeue the run
    phase: Phase | None = None  # where the backend knows more than the run directory
    job_id: str | None = None  # of the scheduler, also after the end


class Launcher(Protocol):
    """The module `launcher` of a backend."""

    def start(self, run: RunPaths, plan: LaunchPlan) -> None:
        """Start the newest submission of a complete run directory, detached from this process.

        Raise LaunchError when a host or the scheduler refuses; nothing is left running then.
        """

    def observe(self, runs: Sequence[RunFacts]) -> Mapping[str, View]:
        """Return run id -> View for many runs. Never raise because a host or the scheduler is down."""

    def stop(self, run: RunPaths, report: Callable[[str], None]) -> bool:
        """Ask the newest attempt to save and exit; return False if nothing runs. `report`: of an unusual way to it."""

    def cancel(self, run: RunPaths, report: Callable[[str], None]) -> bool:
        """End the run now; return False if nothing was running. Raise FsdpctlError naming what is still alive."""


@dataclass(frozen=True)
class Cluster:
    """The input of planning, from a profile, a job and the submitting machine."""

    nodes: tuple[PlannedNode, ...]  # those that the profile lists; `rank` is the index in that list
    spares: tuple[PlannedNode, ...]
    gpus_per_node: int | None  # of the profile, for all nodes
    least_gpus: int  # the minimum over all nodes, as far as the profile gives it
    local_gpus: tuple[str, ...]  # indices of the submitting machine's GPUs
    num_nodes: int  # that the job asks for
    python: str | None  # of the profile
    container_python: str | None  # in the profile's container; None without one
    own_python: str  # the interpreter that runs fsdpctl
    runs_root: str


@dataclass(frozen=True)
class BackendPlan:
    """What a backend contributes to a LaunchPlan."""

    nodes: tuple[PlannedNode, ...]
    device: Device
    gpus: int  # of each node
    python: str  # that runs the agents and ranks
    outside_python: str = ""  # with a container: on the nodes themselves
    head_rule: str = "the address on the interface that routes from the head to the other nodes"
    shared_disk: bool = True
    longest_s: int | None = None  # of one attempt
    stop_margin_s: int = 0  # by which the request to stop comes earlier than `grace` before the end
    is_limited_by_scheduler: bool = False
    slurm: SlurmPlan | None = None
    ssh: SshPlan | None = None
    problems: tuple[Problem, ...] = field(default=())


class Planning(Protocol):
    """The module `planning` of a backend. Pure."""

    def plan_backend(self, keys: Any, cluster: Cluster) -> BackendPlan:
        """Return the backend's part of a plan, from its own keys of the profile and the cluster."""


class Placement(Protocol):
    """The module `placement` of a backend: which nodes a run gets."""

    def place(self, plan: LaunchPlan, avoid: Avoid, own: Own | None = None) -> Placed:
        """Return the plan on nodes that are not held, suspects last; with `own`, on nodes of that hold.

        Raise RefusedError if too few are left.
        """

    def machines(self, plan: LaunchPlan) -> tuple[str, ...]:
        """Return what identifies the nodes of a plan in every profile; none where a scheduler assigns them."""


@dataclass(frozen=True)
class HoldView:
    """What only the backend knows about a hold."""

    state: Literal["queued", "held", "over", "unknown"]
    reason: str = ""


class Holding(Protocol):
    """The module `holding` of a backend: nodes that stay with the user between runs."""

    def take(self, hold: HoldPaths, record: Hold, plan: LaunchPlan) -> None:
        """Take the nodes of a plan, or ask for them; `hold.held` is written once they are given. Raise LaunchError."""

    def look(self, holds: Sequence[HoldPaths]) -> Mapping[HoldPaths, HoldView]:
        """Return a HoldView of each of many holds. Never raise because a scheduler is down."""

    def release(self, hold: HoldPaths, plan: LaunchPlan) -> None:
        """Give the nodes back; `plan` is one on all of them. Raise FsdpctlError."""


@dataclass(frozen=True)
class NodeAnswer:
    """The exit code and output of a command on a node."""

    code: int
    stdout: str
    stderr: str


class ProbeTransport(Protocol):
    """How doctor runs a command on the nodes of a plan: the class of the module `probe_transport`."""

    plan: LaunchPlan  # with the nodes to reach

    def run(self, node: PlannedNode, argv: Sequence[str], stdin: bytes, limit_s: float) -> NodeAnswer:
        """Run a command on one node, after the profile's `setup`. Raise HostError with the reason in one line."""

    def close(self) -> None: ...


@dataclass(frozen=True)
class ShellCommand:
    """The command on this machine that opens a shell on a node, and its environment."""

    argv: list[str]
    env: Mapping[str, str]


@dataclass(frozen=True)
class Prediction:
    """What the scheduler will do to a run, in one line, and warnings about what the user may not expect."""

    text: str = ""
    warnings: tuple[str, ...] = ()


class JobArrays(Protocol):
    """The module `job_arrays` of a backend with a scheduler: several runs as one job."""

    def find_obstacle(self, plans: Sequence[LaunchPlan]) -> str | None:
        """Return why these runs cannot be one job array; None if they can."""

    def start_array(self, runs: Sequence[RunPaths], plans: Sequence[LaunchPlan], name: str, at_once: int | None) -> str:
        """Start the newest submission of each run as a task of one job array; return the id of the array.

        The locks of the runs are held. Raise RefusedError if the scheduler does not accept it.
        """


@dataclass(frozen=True)
class JobUsage:
    """What a scheduler's jobs have used, by its own accounts."""

    elapsed_s: float = 0.0
    allocated_cpu_s: float = 0.0
    used_cpu_s: float = 0.0

    @property
    def cpu_efficiency(self) -> float | None:
        """The share of the allocated processors' time that was used."""
        return self.used_cpu_s / self.allocated_cpu_s if self.allocated_cpu_s else None


class CopyHosts(Protocol):
    """The hosts of a run without a shared disk: each may have checkpoints."""

    unreachable: dict[str, str]  # hosts that gave no answer, and why

    def ask(self, query: str, *names: str, num_bytes: int = 0) -> dict[str, tuple[HostCopy, ...]]:
        """Return the answers of `fsdpctl.node.queries.checkpoint_copies`, by host."""

    def fetch(self, host: str, manifest: Manifest, into: Path) -> Path:
        """Copy a checkpoint's files here, unverified. Raise HostError."""
