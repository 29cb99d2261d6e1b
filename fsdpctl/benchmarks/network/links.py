"""What the links of this node should give, as the kernel reports it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from fsdpctl.contract.benchmarks import LinkRate
from fsdpctl.node.checks.network import read_ports, select

NET = Path("/sys/class/net")


def read_link(node_rank: int, device: str, interface: str, env: Mapping[str, str]) -> LinkRate:
    """Return the rate of what carries the data: InfiniBand for NCCL where a port is active, else the interface."""
    if device == "cuda" and env.get("NCCL_IB_DISABLE", "0") == "0":
        chosen = select(read_ports(), env.get("NCCL_IB_HCA", ""))
        ports = {port.name: port for found in chosen.values() for port in found if port.state == "ACTIVE"}
        if ports:
            rates = [port.gbps for port in ports.values() if port.gbps is not None]
            return LinkRate(node_rank, ", ".join(ports), sum(rates) * 1e9 if len(rates) == len(ports) else None)
    return LinkRate(node_rank, interface, read_interface_rate(interface))


def read_interface_rate(interface: str, net: Path = NET) -> float | None:
    """Return the rate of an interface in bits/s; None if it is virtual, for which the kernel reports any number."""
    folder = net / interface
    if not ((folder / "device").exists() or (folder / "bonding").exists()):
        return None
    try:
        megabits = int((folder / "speed").read_text())
    except (OSError, ValueError):  # EINVAL where there is no carrier
        return None
    return megabits * 1e6 if megabits > 0 else None
