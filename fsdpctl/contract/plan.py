"""LaunchPlan: the whole launch as one value. The same for the first start, a requeue and a resume.

`fsdpctl/launch/build.py` builds it, `fsdpctl/launch/preview.py` prints it, and each node's agent reads it from
`plan.json`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from fsdpctl.contract import Cause
from fsdpctl.contract.causes import RESTART_ON
from fsdpctl.contract.entry import Entry
from fsdpctl.contract.notify import NotifyTarget

Device = Literal["cpu", "cuda"]
Debug = Literal["off", "info", "trace"]
StopSignal = Literal["none", "TERM", "USR1", "USR2", "INT"]
TrackerName = Literal["wandb", "mlflow", "tensorboard"]
"""A service for metrics, by the name of its Python package."""


def add_suffix(address: str, suffix: str) -> str:
    """Return a host name with the suffix; an IP address as it is."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return address + suffix
    return address


@dataclass(frozen=True)
class PlannedNode:
    """One node of the run; `address` is None until the scheduler has allocated it."""

    rank: int
    id: str
    address: str | None = None
    ssh_port: int = 22
    env: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class AllocatedNode:
    """A node by the scheduler's name and address."""

    name: str
    address: str


@dataclass(frozen=True)
class Allocation:
    """The nodes of one attempt of a Slurm run, by node rank."""

    job_id: str
    restarts: int  # how often Slurm has requeued the job
    nodes: tuple[AllocatedNode, ...]


@dataclass(frozen=True)
class DroppedHost:
    """A host that was replaced by another one, and why."""

    node: PlannedNode
    reason: str
    time: float  # seconds since the epoch


@dataclass(frozen=True)
class Head:
    """The rendezvous host. Without an address, node 0 resolves its own; `rule` names the rule that chose it."""

    address: str | None
    rule: str


@dataclass(frozen=True)
class Ports:
    """Candidates for the rendezvous port, probed on the head itself."""

    first: int
    last: int


@dataclass(frozen=True)
class Mesh:
    """The device mesh of the bundled trainer: `replicate` groups of `shard` ranks each.

    Rank g sits in replica g // shard at shard position g % shard, so that with shard = procs_per_node
    a replica is one node.
    """

    strategy: str
    replicate: int
    shard: int

    def shard_groups(self) -> list[range]:
        """Return the groups of ranks that hold one replica together: they gather parameters from each other."""
        return [range(r * self.shard, (r + 1) * self.shard) for r in range(self.replicate)]

    def replicate_groups(self) -> list[range]:
        """Return the groups of ranks that hold the same shard: they sum gradients over replicas."""
        return [range(s, self.replicate * self.shard, self.shard) for s in range(self.shard)]


@dataclass(frozen=True)
class ContainerPlan:
    """The container in which the agents of a run start."""

    runtime: Literal["pyxis", "apptainer", "docker"]
    image: str
    mounts: tuple[str, ...]  # SRC, SRC:DST or SRC:DST:FLAGS
    options: tuple[str, ...]  # of srun, `apptainer exec` or `docker run`


@dataclass(frozen=True)
class SlurmPlan:
    """What a run requests from Slurm."""

    options: tuple[str, ...]  # of sbatch, from the profile: `--key` or `--key=value`, not yet quoted
    max_requeues: int
    python: str  # of the batch script, which runs outside of the container
    comment: str = ""
    container: ContainerPlan | None = None
    suspects: tuple[str, ...] = ()  # nodes that the job does not get, if it can start without them


@dataclass(frozen=True)
class SshPlan:
    """How the hosts of a run are reached, and which may take part in it."""

    user: str | None  # None: what ssh_config has
    connect_timeout_s: int
    nodes: tuple[PlannedNode, ...]  # of the profile, used or not
    spares: tuple[PlannedNode, ...]


@dataclass(frozen=True)
class HangLimits:
    """How long ranks may make no progress, in seconds."""

    step_s: float = 10.0
    data_s: float = 600.0
    start_s: float = 1800.0  # while a rank works or compiles, and nothing is known about how long that takes
    disk_s: float = 60.0  # while a disk or a file server does not answer
    leave_s: float = 300.0  # after other ranks of a user's script have ended
    script_s: float | None = None  # of users' scripts; None: only where it is sure


@dataclass(frozen=True)
class AfterRun:
    """The run that must succeed before this one starts."""

    run_id: str
    run_dir: str


@dataclass(frozen=True)
class HoldPlan:
    """The hold in which a run takes place: nodes that stay with the user between runs."""

    name: str
    root: str  # its directory, on each node
    until: float  # seconds since the epoch
    idle_s: int  # after so long without a run it ends
    job_id: str | None = None  # of its allocation, where a scheduler has given the nodes


@dataclass(frozen=True)
class LaunchPlan:
    """Everything about a launch that is known before its nodes are."""

    run_id: str
    job_name: str
    backend: str  # a name in fsdpctl/backends/table.py
    nodes: tuple[PlannedNode, ...]
    procs_per_node: int
    device: Device
    mesh: Mesh | None
    head: Head
    ports: Ports
    rendezvous: Literal["static", "c10d"]
    interface: str
    allow_loopback: bool
    join_timeout_s: int
    peer_timeout_s: int
    python: str
    setup: tuple[str, ...]
    entry: Entry
    env: Mapping[str, str]
    pass_env: tuple[str, ...]
    run_dir: str
    workdir: str | None
    submit_dir: str
    time_limit_s: int | None
    grace_s: int
    restarts: int
    slurm: SlurmPlan | None = None
    debug: Debug = "off"
    shared_disk: bool = True  # False: each node has its own directory at `run_dir`
    is_limited_by_scheduler: bool = False  # it ends attempts at their time limit; else the agents do
    ssh: SshPlan | None = None
    hang: HangLimits = HangLimits()
    restart_on: tuple[Cause, ...] = RESTART_ON
    after: AfterRun | None = None
    hostname_suffix: str = ""  # of the nodes that a scheduler will allocate; the others have it already
    stop_signal: StopSignal = "none"  # what ranks get at a stop, beside the stop file
    report_to: tuple[TrackerName, ...] = ()
    container: ContainerPlan | None = None
    outside_python: str = ""  # with a container: runs what starts the agents, without it
    warm: bool = False  # ranks are forked from a process that has imported torch
    warm_imports: tuple[str, ...] = ()  # and these modules
    progress_regex: str | None = None  # finds the steps of a user's script in the log of rank 0
    notify: tuple[NotifyTarget, ...] = ()
    installed_python: str = ""  # runs fsdpctl on the submitting host
    hold: HoldPlan | None = None

    def place(self, nodes: Sequence[AllocatedNode]) -> LaunchPlan:
        """Return the plan with the names and addresses of the nodes that a scheduler allocated."""
        placed = [
            replace(node, id=on.name, address=add_suffix(on.address, self.hostname_suffix))
            for node, on in zip(self.nodes, nodes, strict=True)
        ]
        return replace(self, nodes=tuple(placed))

    def with_node(self, node: PlannedNode) -> LaunchPlan:
        """Return the plan with this node in place of the one of the same rank."""
        return replace(self, nodes=tuple(node if old.rank == node.rank else old for old in self.nodes))

    @property
    def host_python(self) -> str:
        """The Python of the nodes themselves, which starts agents and answers queries."""
        return self.outside_python if self.container is not None else self.python

    @property
    def world_size(self) -> int:
        return len(self.nodes) * self.procs_per_node

    def ranks_of(self, node_rank: int) -> range:
        """Return the global ranks of a node."""
        first = node_rank * self.procs_per_node
        return range(first, first + self.procs_per_node)


@dataclass(frozen=True)
class NodeContext:
    """What is known only on the node, at the start of one attempt."""

    node_rank: int
    attempt: int
    head_address: str
    port: int | str  # text only in a preview, before the port is chosen
    interface: str | None
