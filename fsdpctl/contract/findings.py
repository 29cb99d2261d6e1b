"""The node check as values: the request to a node, its findings, and what must agree between nodes.

`fsdpctl/node/checks/node_check.py` checks one node, at the start of each attempt and for `fsdpctl doctor`;
`fsdpctl/doctor/` compares nodes. `docs/doctor.md` describes each check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, TypeVar

from fsdpctl.contract.plan import LaunchPlan

T = TypeVar("T")

MAX_CLOCK_SKEW_S = 60.0
"""Clocks that differ by more are wrong: events of different nodes cannot be ordered by time."""


class Check(StrEnum):
    """Every check by its id, in the order in which they are shown."""

    REACH = "reach"
    SCHEDULER = "scheduler"
    PYTHON = "python"
    PACKAGES = "packages"
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
    NOTIFY = "notify"


class Result(StrEnum):
    """The result of a check. `unknown` means that a tool is missing or an earlier check failed; it is never `ok`."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Finding:
    """One check's result on one node, its reason, and how to fix it."""

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
    """A request to `fsdpctl.node.queries.probe`: check one node, connect it to the others, clean up, or describe it."""

    stage: Literal["local", "connectivity", "clean", "describe"]
    plan: LaunchPlan
    node_rank: int
    directory: str  # on the disk of the run directories, used by the probe only
    head: str = ""  # connectivity: the head's address; describe: that of the first host
    ports: tuple[int, ...] = ()  # connectivity: the ports that the head opens
    partners: tuple[int, ...] = ()  # connectivity: the node ranks that take part


@dataclass(frozen=True)
class Versions:
    """The versions that must be the same on all nodes; None where one is missing or unknown."""

    python: str | None = None
    torch: str | None = None
    cuda: str | None = None
    nccl: str | None = None
    driver: str | None = None


def most_common(values: Sequence[T]) -> T:
    """Return the most common value; of equally common ones, the first."""
    return max(values, key=lambda value: (values.count(value), -values.index(value)))


@dataclass(frozen=True)
class LocalReport:
    """The findings of one node by itself."""

    findings: tuple[Finding, ...]
    versions: Versions
    time: float  # seconds since the epoch, by this node's clock
    head: str | None = None  # head only: its own address, numeric
    free_ports: tuple[int, ...] = ()  # head only: ports of the plan's range that it could open


@dataclass(frozen=True)
class ConnectivityReport:
    """The connections of one node to the others."""

    resolved_head: str = ""  # what the head's address resolves to here; empty if it does not
    opened: tuple[int, ...] = ()  # head only
    unreached: Mapping[str, str] = field(default_factory=dict)  # port -> how the connection failed
    source: str = ""  # the local address of the connections, if one was chosen
    tokens: tuple[int, ...] = ()  # node ranks whose token could be read
