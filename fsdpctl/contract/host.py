"""What `profiles init --look` reads on a host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class FileSystem:
    """A mounted file system."""

    kind: str  # like ext4, nfs4, tmpfs
    source: str  # what is mounted
    mount: str  # where


@dataclass(frozen=True)
class Adapter:
    """An active port of an InfiniBand or RoCE adapter."""

    hca: str
    port: str
    gbps: float | None
    is_ethernet: bool  # RoCE


@dataclass(frozen=True)
class HostDescription:
    """One host. What could not be read is in `unseen`, one sentence each."""

    hostname: str
    cpus: int
    memory: int  # bytes
    numa_nodes: int
    gpus: tuple[str, ...]  # their names
    interfaces: tuple[str, ...]  # with an IPv4 address
    interface: str | None  # the one that routes to the first host
    adapters: tuple[Adapter, ...]
    shared: tuple[FileSystem, ...]  # mounted from a file server
    python: str  # path of the interpreter that answered
    python_version: str
    torch: str | None
    unseen: tuple[str, ...] = ()
