"""Checks of this node's network interfaces and InfiniBand ports, as the kernel shows them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract.findings import Check, Finding, fail, ok, warn
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.os import addresses

SYSFS = Path("/sys/class/infiniband")
_RATE = re.compile(r"([0-9.]+) Gb/sec")
_NO_GID = "0000:0000:0000:0000:0000:0000:0000:0000"
_FIX_PORT = "check the cable, `ibstat` and the subnet manager, or remove the adapter from network.ib_hcas"


def check_interface(interface: str) -> Finding:
    """Check that the profile's interface has an address; `auto` is resolved when the head is known."""
    found = addresses.interfaces()
    known = ", ".join(found) or "none"
    if interface == "auto":
        return ok(Check.INTERFACE, f"auto: the one that routes to the head; found: {known}")
    if interface not in found:
        reason = f"interface {interface!r} does not exist here or has no IPv4 address; found: {known}"
        return fail(Check.INTERFACE, reason, "correct network.interface in the profile, or give it an address")
    return ok(Check.INTERFACE, f"{interface} has {found[interface]}")


@dataclass(frozen=True)
class IbPort:
    """One InfiniBand or RoCE port of one adapter."""

    hca: str
    port: str
    state: str  # like ACTIVE, DOWN, INIT
    rate: str  # like 400 Gb/sec (4X NDR)
    gids: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.hca}:{self.port}"

    @property
    def gbps(self) -> float | None:
        found = _RATE.match(self.rate)
        return float(found[1]) if found else None


def read_ports(sysfs: Path = SYSFS) -> list[IbPort]:
    """Return all InfiniBand and RoCE ports of this node."""
    return [
        IbPort(
            hca=port.parent.parent.name,
            port=port.name,
            state=_read(port / "state").partition(": ")[2],  # "4: ACTIVE"
            rate=_read(port / "rate"),
            gids=tuple(_read(gid) for gid in sorted(port.glob("gids/*"), key=lambda gid: int(gid.name))),
        )
        for port in sorted(sysfs.glob("*/ports/*"))
    ]


def has_infiniband(sysfs: Path = SYSFS) -> bool:
    return any(port.state == "ACTIVE" for port in read_ports(sysfs))


def check_infiniband(plan: LaunchPlan, env: Mapping[str, str], sysfs: Path = SYSFS) -> list[Finding]:
    """Check the adapters that NCCL will use; return no finding for a run on one node or without GPUs."""
    hcas, gid_index = env.get("NCCL_IB_HCA", ""), env.get("NCCL_IB_GID_INDEX")
    ports = read_ports(sysfs)
    if plan.device == "cpu" or len(plan.nodes) == 1 or not (hcas or ports):
        return []
    return [judge_ports(select(ports, hcas), hcas, int(gid_index) if gid_index is not None else None)]


def select(ports: list[IbPort], hcas: str) -> dict[str, list[IbPort]]:
    """Return each adapter in NCCL_IB_HCA with its ports: names or prefixes, `=` for exact, `^` to exclude."""
    is_excluding = hcas.startswith("^")
    is_exact = hcas.lstrip("^").startswith("=")
    names = [name for name in hcas.lstrip("^=").split(",") if name]

    def fits(port: IbPort, name: str) -> bool:
        hca, _, number = name.partition(":")
        same = port.hca == hca if is_exact else port.hca.startswith(hca)
        return same and (not number or port.port == number)

    if is_excluding or not names:
        rest = [port for port in ports if not any(fits(port, name) for name in names)]
        return {port.name: [port] for port in rest}
    return {name: [port for port in ports if fits(port, name)] for name in names}


def judge_ports(chosen: Mapping[str, list[IbPort]], hcas: str, gid_index: int | None) -> Finding:
    if missing := [name for name, ports in chosen.items() if not ports]:
        fix = "correct network.ib_hcas; `ibstat -l` lists the adapters"
        return fail(Check.INFINIBAND, f"no such adapter here: {', '.join(missing)}", fix)
    ports = list({port.name: port for found in chosen.values() for port in found}.values())
    if down := [f"{port.name} is {port.state or 'unreadable'}" for port in ports if port.state != "ACTIVE"]:
        judge = fail if hcas or len(down) == len(ports) else warn
        return judge(Check.INFINIBAND, ", ".join(down), _FIX_PORT)
    if gid_index is not None:
        without = [port.name for port in ports if port.gids[gid_index : gid_index + 1] in ((), (_NO_GID,))]
        if without:
            fix = "correct network.ib_gid_index; `show_gids` lists them, choose one of RoCE v2"
            return fail(Check.INFINIBAND, f"GID {gid_index} is empty on {', '.join(without)}", fix)
    rates = sorted({port.rate for port in ports})
    if len(rates) > 1:
        slow = ", ".join(f"{port.name} {port.rate}" for port in ports)
        return warn(Check.INFINIBAND, f"ports of different rates: {slow}", _FIX_PORT)
    return ok(Check.INFINIBAND, f"{len(ports)} active at {rates[0]}" if ports else "no adapter is left")


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
