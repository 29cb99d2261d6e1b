"""ClusterProfile: frozen, strict, unknown keys refused. The sentence under a key is its documentation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, model_validator

from fsdpctl.backends.local.profile_keys import LocalSection
from fsdpctl.backends.profile_keys import BackendKeys
from fsdpctl.backends.slurm.profile_keys import ContainerKeys, SlurmSection
from fsdpctl.contract.plan import Debug
from fsdpctl.contract.problems import Problem, RuleError, refuse
from fsdpctl.schema.spec import Spec
from fsdpctl.schema.types import (
    Directory,
    Duration,
    EnvMap,
    EnvName,
    Gpu,
    Host,
    HostSuffix,
    Name,
    Port,
    Program,
    RanksPerNode,
    Text,
    Word,
)
from fsdpctl.specs.environment import ContainerEnvironment, Environment
from fsdpctl.specs.lint import LintKeys
from fsdpctl.specs.notify import NotifyKeys


class Node(Spec):
    """One machine. Several nodes may have the same address if their SSH ports differ."""

    id: Name
    """Name of this node in messages and logs."""
    address: Host
    """Host name or IP address that the other nodes can reach."""
    port: Port = 22
    """Port of the SSH server."""
    gpus: Annotated[int, Field(ge=0, le=64)] | None = None
    """Number of GPUs; default: `gpus_per_node`."""
    labels: dict[Name, Text] = {}
    """Free-text labels, shown by `profiles show`."""
    env: EnvMap = {}
    """Environment variables of this node's ranks only."""


class Network(Spec):
    """The network between the ranks."""

    interface: Word = "auto"
    """Network interface for the rendezvous, gloo and the NCCL bootstrap; `auto`: the one that routes to the head."""
    ib_hcas: tuple[Word, ...] = ()
    """InfiniBand adapters (NCCL_IB_HCA), like `mlx5_0` or `mlx5_0:1`; default: NCCL's choice."""
    ib_gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """GID index for RoCE (NCCL_IB_GID_INDEX); default: NCCL's choice."""
    socket_family: Literal["AF_INET", "AF_INET6"] | None = None
    """Address family of the NCCL bootstrap (NCCL_SOCKET_FAMILY); default: NCCL's choice."""
    nccl: EnvMap = {}
    """Further NCCL_* variables, with their full names."""
    gbps: Annotated[float, Field(ge=0.001, le=100_000)] | None = None
    """Rate of a node's network in Gbit/s, all of its adapters together; default: what each node reports."""

    @model_validator(mode="after")
    def _only_nccl(self) -> Network:
        for name in self.nccl:
            if not name.startswith("NCCL_"):
                text = f"takes NCCL_* variables, got {name}; other variables belong under `env`"
                raise RuleError(Problem("nccl", text))
        return self


class PortRange(Spec):
    """Range of ports for the rendezvous; each attempt takes a free one on the head."""

    first: Port = 24_000  # First port of the range, at least 1024
    last: Port = 24_999  # Last port of the range, inclusive

    @model_validator(mode="after")
    def _ordered(self) -> PortRange:
        if self.first > self.last:
            raise RuleError(Problem("first", f"{self.first} must not exceed last ({self.last})", ("last",)))
        if self.first < 1024:
            raise RuleError(Problem("first", f"ports below 1024 need root, got {self.first}"))
        return self


class ClusterProfile(Spec):
    """One cluster: its nodes, its network, and how to start runs on it."""

    name: Name
    """Name of the cluster in messages; `--profile` takes the name of the file."""
    backend: BackendKeys = LocalSection()
    """How runs are started: `local`, `ssh` or `slurm`, or a mapping with `kind` and the keys of that backend."""
    nodes: tuple[Node, ...] = ()
    """Machines of an SSH cluster, the head first. Not needed for Slurm, which allocates nodes, and local."""
    spares: tuple[Node, ...] = ()
    """Machines of an SSH cluster that may replace a failed one."""
    hostname_suffix: HostSuffix = ""
    """Text to append to the name of each node, as `.cluster.example` or `-ib`; IP addresses stay as they are."""
    gpus_per_node: Annotated[int, Field(ge=0, le=64)] | None = None
    """Number of GPUs per node; default on local: the GPUs of this machine, divided among the nodes."""
    gpu: Gpu | None = None
    """Kind of GPU, like `h100-80`, for `estimate` and for the check of memory at `submit`; default on local: found."""
    price_per_gpu_hour: Annotated[float, Field(ge=0, le=1_000_000)] | None = None
    """Price of an hour of one GPU, in any currency, for `estimate` and `usage`."""
    procs_per_node: RanksPerNode | None = None
    """Ranks per node; default: one per GPU, or 2 without GPUs."""
    network: Network = Network()
    master_address: Host | None = None
    """Address of the head for the other nodes; default: the head's address on `network.interface`."""
    ports: PortRange = PortRange()
    rendezvous: Literal["static", "c10d"] = "static"
    """Rendezvous of torchrun. `static`: fsdpctl sets node ranks and port; `c10d`: torchrun chooses them."""
    join_timeout: Duration = 180
    """Maximum time that nodes wait for each other at the start of an attempt."""
    peer_timeout: Duration = 15
    """Age of a heartbeat after which its node counts as lost."""
    allow_loopback: bool = False
    """Set to true to allow a run of several nodes on 127.0.0.1, when all of them are this machine."""
    runs_root: Word | None = None
    """Directory that contains the run directories; default: `$FSDPCTL_HOME/runs`."""
    workdir: Directory | None = None
    """Working directory of the ranks; default: the run's code snapshot."""
    environment: Environment | None = None
    """What the ranks run in: `kind` is `venv`, `uv`, `conda`, `modules`, `apptainer`, `pyxis` or `docker`."""
    python: Program | None = None
    """Python interpreter on the nodes; default: the one that runs fsdpctl on local, else `python3`."""
    venv: Directory | None = None
    """Virtual environment on the nodes; its `bin/python` replaces `python`. Short for `environment`, kind `venv`."""
    debug: Debug = "off"
    """Verbosity of the NCCL and torch logs in the run directory; a job's `debug` overrides it."""
    setup: tuple[Text, ...] = ()
    """Shell lines to run on each node before the agent starts, like `ulimit -n 65536`."""
    modules: tuple[Word, ...] = ()
    """Environment modules to load after the lines of `setup`, like `cuda/13`."""
    env: EnvMap = {}
    """Environment variables of all ranks."""
    pass_env: tuple[EnvName, ...] = ()
    """Names of secret variables, taken from the submitting shell, stored in a file of mode 0600 and never printed."""
    notify: tuple[NotifyKeys, ...] = ()
    """Who gets notices of runs on this cluster, and when; see [notices.md](notices.md)."""
    lint: LintKeys = LintKeys()
    """Rules of `jobs check` that jobs on this cluster ignore."""

    @model_validator(mode="after")
    def _fits_together(self) -> ClusterProfile:
        found = self.backend.find_problems(len(self.nodes), self.gpus_per_node, self.runs_root)
        refuse([*self._repeated_nodes(), *self._two_environments(), *self._impossible_container(), *found])
        return self

    @property
    def has_container(self) -> bool:
        return isinstance(self.environment, ContainerEnvironment) or self._older_container is not None

    @property
    def _older_container(self) -> ContainerKeys | None:
        return self.backend.container if isinstance(self.backend, SlurmSection) else None

    def _two_environments(self) -> Iterator[Problem]:
        if self.environment is None:
            return
        if (older := self._older_container) is not None:
            form = f"environment: {{kind: {older.runtime}, image: {older.image}}}"
            yield Problem("backend.container", f"`environment` is given, too; keep one: {form}", ("environment",))
        if isinstance(self.environment, ContainerEnvironment):
            return  # `python` and `venv` are those outside of it
        if self.venv is not None:
            form = f"environment: {{kind: venv, path: {self.venv}}}"
            yield Problem("venv", f"`environment` is given, too; keep one: {form}", ("environment",))
        if self.python is not None:
            text = "`environment` has the Python of the ranks; leave `python` out"
            yield Problem("python", text, ("environment",))

    def _impossible_container(self) -> Iterator[Problem]:
        kind, is_slurm = self.environment and self.environment.kind, isinstance(self.backend, SlurmSection)
        if kind == "pyxis" and not is_slurm:
            yield Problem("environment.kind", "pyxis is a plugin of Slurm; take apptainer or docker", ("backend",))
        if kind == "docker" and is_slurm:
            text = "Slurm does not account for docker's processes, nor end them; take apptainer or pyxis"
            yield Problem("environment.kind", text, ("backend",))

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
                yield Problem(f"{where}.id", f"{first} has the id {node.id}, too")
            if (first := addresses.setdefault((node.address, node.port), where)) != where:
                text = f"{first} is {node.address} with port {node.port}, too; one of them is wrong"
                yield Problem(f"{where}.address", text)
