"""Describe this host for a profile that is to be written."""

from __future__ import annotations

import os
import platform
import socket
import sys
from pathlib import Path

from fsdpctl.contract.host import Adapter, HostDescription
from fsdpctl.node.checks import smi
from fsdpctl.node.checks.network import SYSFS, read_ports
from fsdpctl.node.checks.versions import read_versions
from fsdpctl.node.os import addresses
from fsdpctl.node.os.filesystems import has_server, read_mounts

NUMA = Path("/sys/devices/system/node")
_INTERNAL = ("lo", "docker", "veth", "virbr", "br-", "cni", "cali", "flannel", "podman", "lxc")
"""Interfaces that lead to no other host begin like this."""


def describe_host(head: str = "") -> HostDescription:
    """Return what this host has. `head`: the address of the first host; empty: of none."""
    gpus, unseen = _read_gpus()
    versions, problems = read_versions(sys.executable, os.environ)
    interfaces = [name for name in addresses.interfaces() if not name.startswith(_INTERNAL)]
    return HostDescription(
        hostname=socket.gethostname(),
        cpus=os.cpu_count() or 1,
        memory=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        numa_nodes=len(list(NUMA.glob("node[0-9]*"))) or 1,
        gpus=gpus,
        interfaces=tuple(interfaces),
        interface=_find_interface(head) if head else None,
        adapters=read_adapters(),
        shared=tuple(filesystem for filesystem in read_mounts() if has_server(filesystem)),
        python=sys.executable,
        python_version=platform.python_version(),
        torch=versions.torch,
        unseen=(*unseen, *(finding.reason for finding in problems if versions.torch is None)),
    )


def _read_gpus() -> tuple[tuple[str, ...], list[str]]:
    """Return the names of the GPUs, and why they could not be read."""
    devices = smi.count_devices()
    try:
        listing = smi.query(os.environ)
    except smi.SmiError as error:
        return ("GPU",) * devices, [str(error)]
    if listing is not None:
        return tuple(gpu.name or "GPU" for gpu in listing.gpus), []
    return ("GPU",) * devices, [
        "nvidia-smi is not installed: GPUs are counted by their device files"
    ] if devices else []


def _find_interface(head: str) -> str | None:
    """Return the interface that routes to `head`; None for this host itself, whose route is loopback."""
    try:
        address = addresses.resolve(head)
    except OSError:
        return None
    own = [name for name, one in addresses.interfaces().items() if one == address]
    return own[0] if own else addresses.interface_towards(address)


def read_adapters(sysfs: Path = SYSFS) -> tuple[Adapter, ...]:
    """Return the active ports of InfiniBand and RoCE adapters."""
    return tuple(
        Adapter(port.hca, port.port, port.gbps, _link_layer(sysfs, port.hca, port.port) == "Ethernet")
        for port in read_ports(sysfs)
        if port.state == "ACTIVE"
    )


def _link_layer(sysfs: Path, hca: str, port: str) -> str:
    try:
        return (sysfs / hca / "ports" / port / "link_layer").read_text().strip()
    except OSError:
        return ""
