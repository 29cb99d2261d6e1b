from __future__ import annotations

import socket

import pytest

from fsdpctl.node.os import addresses

FIRST, LAST = 23_700, 23_702


def test_loopback_is_an_interface_and_routes_to_itself() -> None:
    assert addresses.interfaces()["lo"] == "127.0.0.1"
    assert addresses.interface_towards("127.0.0.1") == "lo"


@pytest.mark.parametrize(
    ("address", "is_unreachable"),
    [("127.0.1.1", True), ("127.0.0.1", True), ("169.254.3.4", True), ("10.1.2.3", False), ("192.0.2.7", False)],
)
def test_loopback_and_link_local_are_unreachable_for_others(address: str, is_unreachable: bool) -> None:
    assert addresses.is_unreachable_for_others(address) is is_unreachable


def test_a_lease_skips_taken_ports_and_other_leases() -> None:
    with socket.create_server(("", FIRST)):
        first = addresses.lease_port(FIRST, LAST, start=0)
        second = addresses.lease_port(FIRST, LAST, start=1)
        assert first is not None and second is not None
        assert (first.port, second.port) == (FIRST + 1, FIRST + 2)
        assert addresses.lease_port(FIRST, LAST, start=0) is None
        first.release()
        again = addresses.lease_port(FIRST, LAST, start=2)
        assert again is not None
        assert again.port == FIRST + 1
        again.release()
        second.release()


def test_the_default_ports_are_outside_the_ephemeral_range() -> None:
    from fsdpctl.specs.profile import PortRange

    first, last = addresses.ephemeral_range()
    assert PortRange().last < first or PortRange().first > last
