"""Addresses, interfaces and ports of this host, read from the kernel only.

Host names are unreliable: `hostname -i` is 127.0.1.1 on Debian, and names and aliases differ between nodes.
"""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

_SIOCGIFADDR = 0x8915
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")


def interfaces() -> dict[str, str]:
    """Return interface name -> IPv4 address, for interfaces that have one."""
    found = {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode()[:15])
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)
            except OSError:
                continue
            found[name] = socket.inet_ntoa(answer[20:24])
    return found


def interface_towards(address: str) -> str | None:
    """Return the interface whose address the kernel would use to reach `address`; None if there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((address, 9))  # UDP: asks the routing table, sends nothing
        except OSError:
            return None
        local = probe.getsockname()[0]
    names = [name for name, own in interfaces().items() if own == local]
    return names[0] if names else None


def resolve(host: str) -> str:
    """Return the IPv4 address of a host name. Raise OSError if it does not resolve."""
    return str(socket.getaddrinfo(host, None, socket.AF_INET, socket.SOCK_STREAM)[0][4][0])


def is_unreachable_for_others(address: str) -> bool:
    """Return True for addresses that other machines cannot reach: loopback and link-local ones."""
    parsed = ipaddress.ip_address(address)
    return parsed.is_loopback or parsed.is_link_local


class PortLease:
    """A free port that no other fsdpctl run on this host will take.

    The probe closes its socket before torchrun opens its own, so a second run could probe the same port in between.
    An abstract Unix socket named after the port closes that gap: it belongs to the same network namespace as the
    port, needs no file, and vanishes with its owner.
    """

    def __init__(self, port: int, lock: socket.socket) -> None:
        self.port = port
        self._lock = lock

    def release(self) -> None:
        self._lock.close()


def lease_port(first: int, last: int, start: int) -> PortLease | None:
    """Lease a free port of first..last, trying from `start` on and wrapping around; return None if all are taken."""
    for port in _candidates(first, last, start):
        lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            lock.bind(f"\0fsdpctl-port-{port}")
            if is_free(port):
                return PortLease(port, lock)
        except OSError:
            pass
        lock.close()
    return None


def is_free(port: int) -> bool:
    """Return True if a server could open this port now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as TCPStore does: ignores TIME_WAIT
        try:
            probe.bind(("", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def ephemeral_range() -> tuple[int, int]:
    """Return (first, last) of the kernel's ephemeral ports, where a rendezvous can lose its port to any client."""
    first, last = _EPHEMERAL.read_text().split()
    return int(first), int(last)


def _candidates(first: int, last: int, start: int) -> Iterator[int]:
    count = last - first + 1
    for offset in range(count):
        yield first + (start + offset) % count
