"""What the benchmarks report: records that rank 0 writes and the command line reads."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from fsdpctl.contract import BENCHMARKS
from fsdpctl.contract.host import FileSystem
from fsdpctl.contract.plan import Device

NETWORK_BENCHMARK = f"{BENCHMARKS}.network"
DISK_BENCHMARK = f"{BENCHMARKS}.disk"

Unit = Literal["node", "rank"]


class Collective(StrEnum):
    """The collectives of FSDP: gradients are reduced, parameters gathered."""

    ALL_REDUCE = "all-reduce"
    ALL_GATHER = "all-gather"
    REDUCE_SCATTER = "reduce-scatter"


@dataclass(frozen=True)
class CollectiveSpeed:
    """One collective of one size over all ranks."""

    collective: Collective
    num_bytes: int  # of the whole buffer, as nccl-tests counts them
    seconds: float  # of one call, on average
    bus_bytes_per_s: float


@dataclass(frozen=True)
class PairSpeed:
    """Two members that sent to each other at the same time: the best of several tries, of one direction."""

    pair: tuple[int, int]
    bytes_per_s: float
    measured: int = 1  # in how many rounds


class Fault(StrEnum):
    """What is slower than the rest."""

    NONE = "none"
    MEMBERS = "members"  # slow with every partner
    LINKS = "links"  # both ends are fast with other partners
    GROUPS = "groups"  # fast within each group, slow between them
    UNDECIDED = "undecided"  # too few members to distinguish


@dataclass(frozen=True)
class Verdict:
    """What the rounds of pairs have found."""

    fault: Fault
    members: tuple[int, ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    groups: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class LinkRate:
    """What the links of one node should give, as its kernel reports it."""

    node_rank: int
    name: str  # interface, or InfiniBand adapters
    bits_per_s: float | None  # None for a virtual interface and one that reports nothing


@dataclass(frozen=True)
class NetworkReport:
    """What `bench nccl` has measured. It is written again after each measurement: a run that fails has a part."""

    device: Device
    world_size: int
    nodes: int
    unit: Unit  # what the members of pairs are: ranks if there is one node only
    links: tuple[LinkRate, ...]
    collectives: tuple[CollectiveSpeed, ...] = ()
    skipped: tuple[int, ...] = ()  # sizes that would have taken too long
    pairs: tuple[PairSpeed, ...] = ()
    rounds: int = 0
    verdict: Verdict | None = None  # None: not yet complete


class ReadWay(StrEnum):
    """What answered when files were read back."""

    DIRECT = "direct"  # O_DIRECT: not this node's page cache
    DROPPED = "dropped"  # this node's page cache was emptied before
    CACHED = "cached"  # pages were still in the cache: memory may have answered
    MEMORY = "memory"  # a file system in memory


@dataclass(frozen=True)
class NodeDiskSpeed:
    """One node's part, while all nodes wrote and read at once."""

    node_rank: int
    filesystem: FileSystem
    write_bytes_per_s: float
    read_bytes_per_s: float
    read_way: ReadWay
    read_from: int  # node rank that had written what this node read


@dataclass(frozen=True)
class DiskReport:
    """What `bench io` has measured."""

    bytes_per_rank: int
    ranks_per_node: int
    nodes: tuple[NodeDiskSpeed, ...]
    write_bytes_per_s: float  # of all nodes together
    read_bytes_per_s: float
