"""The node side of `fsdpctl doctor`: a ProbeRequest as JSON in, the answer as one line of JSON out.

    python -m fsdpctl.node.queries.probe < request.json

Three stages, because some checks need all nodes at once: check this node, connect to the others, clean up. And for
`profiles init --look`, which has no profile yet: describe this host.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path

from fsdpctl.contract.codec import decode, encode
from fsdpctl.contract.findings import (
    Check,
    ConnectivityReport,
    Finding,
    LocalReport,
    ProbeRequest,
    Result,
    fail,
    ok,
    unknown,
    warn,
)
from fsdpctl.contract.host import HostDescription
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.agent.join import JoinError, resolve_head
from fsdpctl.node.checks.listeners import find_listener
from fsdpctl.node.checks.node_check import inspect, rank_env
from fsdpctl.node.checks.notify import check_targets
from fsdpctl.node.checks.ports import Server, reach_ports
from fsdpctl.node.checks.versions import read_versions
from fsdpctl.node.os import addresses
from fsdpctl.node.queries.describe_host import describe_host

TOKENS_S = 5.0
"""How long another node's file may take to become visible: NFS caches directories for some seconds."""


def check_local(request: ProbeRequest) -> LocalReport:
    """Return all findings about this node alone; on the head also its address and free ports."""
    plan, rank = request.plan, request.node_rank
    directory = nearest_directory(request.directory)
    findings = inspect(plan, rank, directory)
    versions, problems = read_versions(plan.python, rank_env(plan, rank))
    with contextlib.suppress(OSError):  # already reported by the storage check
        (directory / f"node-{rank}").write_text(str(rank))
    head: str | None = None
    free_ports: tuple[int, ...] = ()
    if rank == 0:
        head, found = check_head(plan, findings)
        free_ports = tuple(port for port in range(plan.ports.first, plan.ports.last + 1) if addresses.is_free(port))
        findings += [found, judge_ports(plan, free_ports)]
        if plan.slurm is not None:  # notices of a Slurm run are sent from its first node
            findings += check_targets(plan.notify)
    return LocalReport((*findings, *problems), versions, time.time(), head, free_ports)


def nearest_directory(directory: str) -> Path:
    """Return `directory`, or the same name in the nearest existing parent: doctor does not create the run root."""
    requested = Path(directory)
    existing = next(parent for parent in requested.parents if parent.exists())
    return existing / requested.name


def check_head(plan: LaunchPlan, findings: list[Finding]) -> tuple[str | None, Finding]:
    """Return the head's numeric address as an attempt would resolve it, and the finding about it."""
    if plan.head.address is None and any(f.check is Check.INTERFACE and f.result is Result.FAIL for f in findings):
        return None, unknown(Check.HEAD, "depends on the interface")
    try:
        address, _ = resolve_head(plan)
        numeric = addresses.resolve(address)
    except (JoinError, OSError) as error:
        return None, fail(Check.HEAD, str(error), "set master_address or network.interface in the profile")
    return numeric, ok(Check.HEAD, f"{numeric}: {plan.head.rule}")


def judge_ports(plan: LaunchPlan, free: tuple[int, ...]) -> Finding:
    first, last = plan.ports.first, plan.ports.last
    if not free:
        holder = find_listener(first) or "another program"
        reason = f"no port of {first}-{last} can be opened: {first} is held by {holder}"
        return fail(Check.PORTS, reason, "end that program, or widen `ports` in the profile")
    low, high = addresses.ephemeral_range()
    if first <= high and last >= low:
        reason = f"{first}-{last} overlaps {low}-{high}, the kernel's ephemeral ports, which any client may get"
        return warn(Check.PORTS, reason, "choose `ports` outside of net.ipv4.ip_local_port_range")
    return ok(Check.PORTS, f"{len(free)} of {last - first + 1} are free")


def check_connectivity(request: ProbeRequest) -> ConnectivityReport:
    """Open the ports on the head, connect to them from every node, and read what every node wrote."""
    token = Path(request.directory).name
    source = addresses.interfaces().get(request.plan.interface, "")
    server = Server(request.ports, token, len(request.partners)) if request.node_rank == 0 and request.ports else None
    unreached = reach_ports(request.head, request.ports, token, source) if request.ports else {}
    if server is not None:
        server.wait()
    return ConnectivityReport(
        resolved_head=_resolve(request.head),
        opened=server.opened if server is not None else (),
        unreached={str(port): why for port, why in unreached.items()},
        source=source,
        tokens=read_tokens(nearest_directory(request.directory), request.partners),
    )


def read_tokens(directory: Path, partners: tuple[int, ...]) -> tuple[int, ...]:
    """Return the node ranks whose file can be read here; wait up to TOKENS_S for all of them."""
    deadline = time.monotonic() + TOKENS_S
    while True:
        seen = tuple(rank for rank in partners if _holds(directory / f"node-{rank}", str(rank)))
        if len(seen) == len(partners) or time.monotonic() > deadline:
            return seen
        time.sleep(0.1)


def clean(request: ProbeRequest) -> None:
    """Remove what this node wrote; the last node also removes the directory."""
    directory = nearest_directory(request.directory)
    (directory / f"node-{request.node_rank}").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        directory.rmdir()


def describe(request: ProbeRequest) -> HostDescription:
    return describe_host(request.head)


def _holds(path: Path, text: str) -> bool:
    try:
        os.scandir(path.parent).close()  # NFS: a fresh listing
        return path.read_text() == text
    except OSError:
        return False


def _resolve(address: str) -> str:
    try:
        return addresses.resolve(address) if address else ""
    except OSError:
        return ""


def answer(text: str) -> str:
    """Carry out one request and return the answer, both as JSON."""
    request = decode(ProbeRequest, json.loads(text))
    os.umask(0o077)
    stages = {"local": check_local, "connectivity": check_connectivity, "clean": clean, "describe": describe}
    return json.dumps(encode(stages[request.stage](request)))


if __name__ == "__main__":
    print(answer(sys.stdin.read()), flush=True)
