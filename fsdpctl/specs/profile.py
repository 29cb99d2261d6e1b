"""ClusterProfile: frozen, strict, unknown keys refused. The sentence at a key is its documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsdpctl.backends.local.profile_keys import LocalBackend
from fsdpctl.backends.profile_keys import BackendKeys
from fsdpctl.contract.plan import Debug
from fsdpctl.contract.problems import Problem, RuleError, refuse
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import Count, Directory, Duration, EnvMap, EnvName, Host, Name, Port, Program, Text, Word


class Node(Spec):
    """One machine. Several nodes may share an address when their ssh ports differ."""

    id: Name
    """How messages and logs call this node."""
    address: Host
    """Host name or IP address that the other nodes can reach."""
    port: Port = 22
    """Port of its sshd."""
    gpus: Annotated[int, Field(ge=0, le=64)] | None = None
    """Number of GPUs; unset: `gpus_per_node`."""
    labels: dict[Name, Text] = {}
    """Free notes, shown by `profiles show`."""
    env: EnvMap = {}
    """Environment of this node's ranks only."""


class Network(Spec):
    """How ranks talk to each other."""

    interface: Word = "auto"
    """Network interface for rendezvous, gloo and NCCL bootstrap; `auto`: the one that routes to the head."""
    ib_hcas: tuple[Word, ...] = ()
    """InfiniBand adapters (NCCL_IB_HCA), like `mlx5_0` or `mlx5_0:1`."""
    ib_gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """GID index for RoCE (NCCL_IB_GID_INDEX)."""
    socket_family: Literal["AF_INET", "AF_INET6"] | None = None
    """Address family of NCCL's bootstrap (NCCL_SOCKET_FAMILY)."""
    nccl: EnvMap = {}
    """Further NCCL_* variables, as NCCL spells them."""

    @model_validator(mode="after")
    def _only_nccl(self) -> Network:
        for name in self.nccl:
            if not name.startswith("NCCL_"):
                text = f"takes NCCL_* variables, got {name}; other variables belong under `env`"
                raise RuleError(Problem("nccl", text))
        return self


class PortRange(Spec):
    """Ports that the head may open for the rendezvous; probed on the head itself."""

    first: Port = 24_000  # at least 1024
    last: Port = 24_999  # included

    @model_validator(mode="after")
    def _ordered(self) -> PortRange:
        if self.first > self.last:
            raise RuleError(Problem("first", f"{self.first} must not exceed last ({self.last})", ("last",)))
        if self.first < 1024:
            raise RuleError(Problem("first", f"ports below 1024 need root, got {self.first}"))
        return self


class ClusterProfile(Spec):
    """One cluster: its nodes, its network, and how to start something on it."""

    name: Name
    """How messages call it; `--profile` takes the file's name."""
    backend: BackendKeys = LocalBackend()
    """`local`, `ssh` or `slurm`, or a mapping with `kind` and the backend's own keys."""
    nodes: tuple[Node, ...] = ()
    """The machines of an ssh cluster, the head first. Slurm allocates its own; local needs none."""
    spares: tuple[Node, ...] = ()
    """Machines that may replace a failed one."""
    gpus_per_node: Annotated[int, Field(ge=0, le=64)] | None = None
    """GPUs of each node; unset on local: those that this machine has, divided over the nodes."""
    procs_per_node: Count | None = None
    """Ranks per node; unset: one per GPU, or 2 without GPUs."""
    network: Network = Network()
    master_address: Host | None = None
    """The head's address as the other nodes see it; unset: the head's address on `network.interface`."""
    ports: PortRange = PortRange()
    rendezvous: Literal["static", "c10d"] = "static"
    """static: node ranks and the port are ours. c10d: torchrun elects."""
    join_timeout: Duration = 180
    """How long nodes wait for each other at the start of an attempt."""
    peer_timeout: Duration = 15
    """A node whose heartbeat is older than this counts as lost."""
    allow_loopback: bool = False
    """Whether a run of several nodes may meet on 127.0.0.1: only true where all nodes are one machine."""
    runs_root: Word | None = None
    """Directory of the run directories; unset: `$FSDPCTL_HOME/runs`."""
    workdir: Directory | None = None
    """Directory in which ranks start; unset: the run's code snapshot."""
    python: Program | None = None
    """Interpreter on the nodes; unset: the one that runs fsdpctl (local), `python3` (elsewhere)."""
    venv: Directory | None = None
    """Virtual environment on the nodes; its bin/python replaces `python`."""
    debug: Debug = "off"
    """How much NCCL and torch tell into the run directory; a job's `debug` wins."""
    setup: tuple[Text, ...] = ()
    """Shell lines before the agent starts on a node, like `ulimit -n 65536`."""
    modules: tuple[Word, ...] = ()
    """Environment modules, like `cuda/13`: `module load` after the lines of `setup`."""
    env: EnvMap = {}
    """Environment of all ranks."""
    pass_env: tuple[EnvName, ...] = ()
    """Secrets by name: taken from the submitting shell, kept in a file of mode 0600, never printed."""

    @model_validator(mode="after")
    def _fits_together(self) -> ClusterProfile:
        refuse([*self._repeated_nodes(), *self.backend.find_problems(len(self.nodes), self.runs_root)])
        return self

    def _repeated_nodes(self) -> Iterator[Problem]:
        named = [
            (f"{key}[{number}]", node)
            for key, nodes in (("nodes", self.nodes), ("spares", self.spares))
            for number, node in enumerate(nodes)
        ]
        ids: dict[str, str] = {}
        addresses: dict[tuple[str, int], str] = {}
        for where, node in named:
            if (first := ids.setdefault(node.id, where)) != where:
                yield Problem(f"{where}.id", f"{first} is called {node.id}, too")
            if (first := addresses.setdefault((node.address, node.port), where)) != where:
                text = f"{first} is {node.address} with port {node.port}, too; one of them is wrong"
                yield Problem(f"{where}.address", text)
