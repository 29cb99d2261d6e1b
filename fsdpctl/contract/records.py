"""Small records that processes exchange through the run directory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from fsdpctl.contract import Cause, RankFailure


@dataclass(frozen=True)
class ProcessIdentity:
    """One process, unambiguously: a pid is reused, so its start time and the boot id belong to it."""

    host: str
    pid: int
    start_ticks: int  # field 22 of /proc/PID/stat
    boot_id: str
    started: float  # seconds since the epoch


@dataclass(frozen=True)
class ForkServerRecord:
    """The process of a node from which warm ranks are forked."""

    process: ProcessIdentity
    address: str  # abstract, of its Unix socket, without the first NUL
    key: str  # digest of all that it has read


@dataclass(frozen=True)
class KeeperRecord:
    """The process of a node that starts the fork servers of a hold."""

    process: ProcessIdentity
    address: str  # abstract, of its Unix socket, without the first NUL


@dataclass(frozen=True)
class Rewind:
    """A run went back to `step`: from `attempt` on, later checkpoints of older attempts no longer count."""

    step: int
    attempt: int


@dataclass(frozen=True)
class NodeReady:
    """The node check passed on this node. The head's record also holds the endpoint of the rendezvous."""

    hostname: str
    interface: str | None = None
    address: str | None = None  # head only
    port: int | None = None  # head only


@dataclass(frozen=True)
class RankError:
    """Why a rank failed; `first_failure` orders it among others by `failure` and `time`."""

    rank: int
    node_rank: int
    time: float
    message: str
    traceback: str
    expected: bool = False  # one of the trainer's own errors: the message is enough without the traceback
    failure: RankFailure = RankFailure.EXCEPTION
    cause: Cause = Cause.EXCEPTION  # of an expected one
    place: str = ""  # the innermost frame of the user's code
    kinds: tuple[str, ...] = ()  # the classes of the exception, then those of what it was raised from
    errno: int | None = None  # of the first of them that has one
    is_hardware: bool = False  # a GPU, a link or a disk of the node reports a fault
    variable: str = ""  # the environment variable with the path that could not be used


@dataclass(frozen=True)
class Resources:
    """What a node may have run out of, when its part of an attempt failed; None where it cannot be read."""

    oom_kills: int | None = None  # processes of the agent's cgroup that the kernel killed in this attempt
    host_oom_kills: int | None = None  # of the whole host
    memory_limit: int | None = None  # of the cgroup, in bytes
    memory_peak: int | None = None  # of the cgroup, in bytes
    shm_free: int | None = None  # of /dev/shm, in bytes
    is_disk_full: bool = False  # the disk of the run


@dataclass(frozen=True)
class NodeEnd:
    """How one node's part of an attempt ended."""

    code: int  # NodeExit, or the code of torchrun
    reason: str
    failed_rank: int | None = None
    time: float = 0.0
    cause: Cause = Cause.UNKNOWN
    first_error: RankError | None = None  # of this node's ranks, without its traceback
    exits: Mapping[str, int] = field(default_factory=dict)  # global rank -> exit code, of the ranks that failed
    resources: Resources | None = None  # of a node that failed
    is_forced: bool = False  # its ranks had not ended by themselves at the end of the grace


@dataclass(frozen=True)
class RankEnd:
    """A rank has finished its script without an error; others may still hang in theirs."""

    rank: int
    time: float


@dataclass(frozen=True)
class Outcome:
    """What rank 0 records at the end of an attempt."""

    status: Literal["finished", "stopped", "failed"]
    step: int
    checkpoint: str | None = None  # directory name under checkpoints/, when one was saved
    reason: str = ""
    summary: Mapping[str, float] = field(default_factory=dict)  # held_out_loss, unigram_entropy, tokens_per_s, ...
