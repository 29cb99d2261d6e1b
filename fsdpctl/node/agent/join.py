"""Before ranks start: every node passes its check, then the head publishes the rendezvous address and port.

The head opens no port until all nodes are ready, so one bad node ends the attempt with its own reason instead of a
rendezvous that times out after ten minutes.
"""

from __future__ import annotations

import os
import socket
import time
import zlib
from collections.abc import Callable
from contextlib import suppress

from fsdpctl.contract import Cause, NodeExit
from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.control_files import read_control_file
from fsdpctl.contract.paths import AttemptPaths, NodePaths
from fsdpctl.contract.plan import LaunchPlan, NodeContext
from fsdpctl.contract.records import NodeEnd, NodeReady
from fsdpctl.node.agent.patience import Patience
from fsdpctl.node.os import addresses

POLL_S = 0.05


class JoinError(Exception):
    """The nodes could not join. `code` is the exit code of this agent."""

    def __init__(self, message: str, code: int = 1, cause: Cause = Cause.JOIN) -> None:
        super().__init__(message)
        self.code, self.cause = code, cause


def join(
    plan: LaunchPlan, attempt: AttemptPaths, node_rank: int, beat: Callable[[], None]
) -> tuple[NodeContext, addresses.PortLease | None]:
    """Wait for all nodes and return the endpoint of the rendezvous; on the head also the lease of its port."""
    deadline = time.monotonic() + plan.join_timeout_s
    if node_rank == 0:
        return _open(plan, attempt, beat, deadline)
    _report_ready(plan, attempt.node(node_rank), NodeReady(socket.gethostname()), beat)
    ready = _await_ready(plan, attempt, 0, beat, deadline)
    assert ready.address is not None and ready.port is not None
    interface = plan.interface if plan.interface != "auto" else addresses.interface_towards(ready.address)
    return NodeContext(node_rank, attempt.number, ready.address, ready.port, interface), None


def _open(
    plan: LaunchPlan, attempt: AttemptPaths, beat: Callable[[], None], deadline: float
) -> tuple[NodeContext, addresses.PortLease]:
    for rank in range(1, len(plan.nodes)):
        _await_ready(plan, attempt, rank, beat, deadline)
    address, interface = resolve_head(plan)
    start = zlib.crc32(f"{plan.run_id}.{attempt.number}".encode())
    lease = addresses.lease_port(plan.ports.first, plan.ports.last, start)
    if lease is None:
        raise JoinError(f"no free port in {plan.ports.first}-{plan.ports.last} on the head", NodeExit.NODE_FAULT)
    _report_ready(plan, attempt.node(0), NodeReady(socket.gethostname(), interface, address, lease.port), beat)
    return NodeContext(0, attempt.number, address, lease.port, interface), lease


def resolve_head(plan: LaunchPlan) -> tuple[str, str | None]:
    """Return (address, interface) of the head, on the head itself. Raise JoinError if other nodes cannot reach it."""
    try:
        address = _head_address(plan)
        numeric = addresses.resolve(address)
    except OSError as error:
        raise JoinError(f"the head's address does not resolve ({plan.head.rule}): {error}") from error
    if len(plan.nodes) > 1 and not plan.allow_loopback and addresses.is_unreachable_for_others(numeric):
        raise JoinError(
            f"the head's address {address} ({numeric}) is loopback or link-local, which other nodes cannot reach;"
            f" it came from: {plan.head.rule}. Set master_address or network.interface in the profile"
        )
    interface = plan.interface if plan.interface != "auto" else addresses.interface_towards(numeric)
    return address, interface


def _head_address(plan: LaunchPlan) -> str:
    if plan.head.address is not None:
        return plan.head.address
    found = addresses.interfaces()
    interface = plan.interface
    if interface == "auto":
        peers = [node.address for node in plan.nodes[1:] if node.address is not None]
        interface = (addresses.interface_towards(addresses.resolve(peers[0])) if peers else None) or "lo"
    if interface not in found:
        raise JoinError(f"interface {interface!r} has no IPv4 address here; found: {', '.join(found) or 'none'}")
    return found[interface]


def _report_ready(plan: LaunchPlan, paths: NodePaths, ready: NodeReady, beat: Callable[[], None]) -> None:
    Patience(plan.peer_timeout_s).retry(lambda: write_json(paths.ready, ready), beat)


def _await_ready(
    plan: LaunchPlan, attempt: AttemptPaths, rank: int, beat: Callable[[], None], deadline: float
) -> NodeReady:
    looks = Patience(plan.peer_timeout_s)
    while True:
        beat()
        if (ready := looks.call(lambda: _find_ready(attempt, rank))) is not None:
            return ready
        if time.monotonic() > deadline:
            raise JoinError(f"node {rank} ({plan.nodes[rank].id}) did not join within {plan.join_timeout_s} s")
        time.sleep(POLL_S)


def _find_ready(attempt: AttemptPaths, rank: int) -> NodeReady | None:
    """Return None while the node is not ready. Raise JoinError if it never will be, and OSError."""
    paths = attempt.node(rank)
    with suppress(FileNotFoundError):
        os.scandir(paths.root).close()  # NFS: a fresh listing shows a new file now, not in 30 s
    if (ready := find_json(NodeReady, paths.ready)) is not None:
        return ready
    if (end := find_json(NodeEnd, paths.end)) is not None:
        raise JoinError(f"node {rank}: {end.reason}", cause=Cause.ABORT)
    if (abort := read_control_file(attempt.abort)) is not None:
        raise JoinError(f"{abort.cause}: {abort.reason}", cause=Cause.ABORT)
    return None
