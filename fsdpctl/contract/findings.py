"""The node check as values: what is asked of a node, what it finds, and what must agree between nodes.

`fsdpctl/node/checks/node_check.py` looks at one node, at the start of each attempt and for `fsdpctl doctor`;
`fsdpctl/doctor/` compares nodes. `docs/doctor.md` says what each check means.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeVar

from fsdpctl.contract.plan import LaunchPlan

T = TypeVar("T")

MAX_CLOCK_SKEW_S = 60.0
"""Clocks that differ by more are wrong: nothing that nodes say about time can be put in order."""


class Check(StrEnum):
    """Every check by its id, in the order in which they are shown."""

    REACH = "reach"
    SCHEDULER = "scheduler"
    PYTHON = "python"
    TORCH = "torch"
    BYTE_CODE = "byte_code"
    CUDA = "cuda"
    NCCL = "nccl"
    DRIVER = "driver"
    GPUS = "gpus"
    GPU_HEALTH = "gpu_health"
    GPU_CLOCKS = "gpu_clocks"
    GPU_PROCESSES = "gpu_processes"
    INFINIBAND = "infiniband"
    INTERFACE = "interface"
    HEAD = "head"
    PORTS = "ports"
    CONNECT = "connect"
    CLOCK = "clock"
    MEMLOCK = "memlock"
    NOFILE = "nofile"
    SHM = "shm"
    RUN_ROOT = "run_root"
    DISK = "disk"
    SHARED = "shared"


class Result(StrEnum):
    """What a check came to. `unknown` is said where a tool is missing or an earlier check failed; it is never `ok`."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One check's result on one node, why, and what mends it."""

    check: Check
    result: Result
    reason: str
    fix: str = ""


def ok(check: Check, reason: str) -> Finding:
    return Finding(check, Result.OK, reason)


def warn(check: Check, reason: str, fix: str) -> Finding:
    return Finding(check, Result.WARN, reason, fix)


def fail(check: Check, reason: str, fix: str) -> Finding:
    return Finding(check, Result.FAIL, reason, fix)


def unknown(check: Check, reason: str, fix: str = "") -> Finding:
    return Finding(check, Result.UNKNOWN, reason, fix)


@dataclass(frozen=True)
class ProbeRequest:
    """What `fsdpctl.node.queries.probe` shall do on one node: look at it, meet the others, or remove what it wrote."""

    stage: Literal["look", "meet", "clean"]
    plan: LaunchPlan
    node_rank: int
    directory: str  # on the disk of the run directories, for the probe alone
    head: str = ""  # meet: the head's address
    ports: tuple[int, ...] = ()  # meet: what the head opens
    partners: tuple[int, ...] = ()  # meet: the node ranks that take part


@dataclass(frozen=True)
class Versions:
    """What must be the same on all nodes; None where it is not there or cannot be known."""

    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    driver: str | None = None


def most_common(values: Sequence[T]) -> T:
    """What the most nodes have; where as many have one as another, what the first one has."""
    return max(values, key=lambda value: (values.count(value), -values.index(value)))


@dataclass(frozen=True)
class LocalReport:
    """One node by itself."""

    findings: tuple[Finding, ...]
    versions: Versions
    time: float  # seconds since the epoch, by this node's clock
    head: str | None = None  # head only: its own address, numeric
    free_ports: tuple[int, ...] = ()  # head only: of the plan's range, those it could open


@dataclass(frozen=True)
class ConnectivityReport:
    """One node among the others."""

    head_seen: str = ""  # what the head's address resolves to here; empty where it does not
    opened: tuple[int, ...] = ()  # head only
    unreached: Mapping[str, str] = field(default_factory=dict)  # port -> how the connection failed
    source: str = ""  # the own address that the connections were made from, where one was chosen
    tokens: tuple[int, ...] = ()  # node ranks whose token could be read
