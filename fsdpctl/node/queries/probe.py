"""What `fsdpctl doctor` asks of one node: a ProbeRequest as JSON in, the answer as one line of JSON out.

    python -m fsdpctl.node.queries.probe < request.json

Three questions, because nodes must be looked at together: look at yourself, meet the others, clean up.
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
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.agent.join import JoinError, resolve_head
from fsdpctl.node.checks.listeners import find_listener
from fsdpctl.node.checks.node_check import inspect, rank_env
from fsdpctl.node.checks.ports import Server, reach_ports
from fsdpctl.node.checks.versions import read_versions
from fsdpctl.node.os import addresses

TOKENS_S = 5.0
"""How long a file that another node wrote may take to be seen: NFS caches directories for some seconds."""


def look(request: ProbeRequest) -> LocalReport:
    """Everything that this node can say by itself; the head also says where it can be met."""
    plan, rank = request.plan, request.node_rank
    place = probe_place(request.directory)
    findings = inspect(plan, rank, place)
    versions, said = read_versions(plan.python, rank_env(plan, rank))
    with contextlib.suppress(OSError):  # the storage check has said it
        (place / f"node-{rank}").write_text(str(rank))
    head: str | None = None
    free_ports: tuple[int, ...] = ()
    if rank == 0:
        head, found = look_at_head(plan, findings)
        free_ports = tuple(port for port in range(plan.ports.first, plan.ports.last + 1) if addresses.is_free(port))
        findings += [found, judge_ports(plan, free_ports)]
    return LocalReport((*findings, *said), versions, time.time(), head, free_ports)


def probe_place(directory: str) -> Path:
    """`directory`, or the same name in the nearest place above it that exists: a doctor creates no run root."""
    wanted = Path(directory)
    above = next(parent for parent in wanted.parents if parent.exists())
    return above / wanted.name


def look_at_head(plan: LaunchPlan, findings: list[Finding]) -> tuple[str | None, Finding]:
    """The head's address as an attempt would resolve it, numeric."""
    if plan.head.address is None and any(f.check is Check.INTERFACE and f.result is Result.FAIL for f in findings):
        return None, unknown(Check.HEAD, "depends on the interface")
    try:
        address, _ = resolve_head(plan)
        numeric = addresses.resolve(address)
    except (JoinError, OSError) as error:
        return None, fail(Check.HEAD, str(error), "set master_address or addresses.interface in the profile")
    return numeric, ok(Check.HEAD, f"{numeric}: {plan.head.rule}")


def judge_ports(plan: LaunchPlan, free: tuple[int, ...]) -> Finding:
    first, last = plan.ports.first, plan.ports.last
    if not free:
        holder = find_listener(first) or "another program"
        reason = f"no port of {first}-{last} can be opened: {first} is held by {holder}"
        return fail(Check.PORTS, reason, "end that program, or widen `ports` in the profile")
    low, high = addresses.ephemeral_range()
    if first <= high and last >= low:
        reason = f"{first}-{last} overlaps {low}-{high}, which the kernel hands out to any client"
        return warn(Check.PORTS, reason, "choose `ports` outside of net.ipv4.ip_local_port_range")
    return ok(Check.PORTS, f"{len(free)} of {last - first + 1} are free")


def meet(request: ProbeRequest) -> ConnectivityReport:
    """Open the ports on the head, connect to them from every node, and read what every node wrote."""
    word = Path(request.directory).name
    source = addresses.interfaces().get(request.plan.interface, "")
    server = Server(request.ports, word, len(request.partners)) if request.node_rank == 0 and request.ports else None
    unreached = reach_ports(request.head, request.ports, word, source) if request.ports else {}
    if server is not None:
        server.wait()
    return ConnectivityReport(
        head_seen=_resolve(request.head),
        opened=server.opened if server is not None else (),
        unreached={str(port): why for port, why in unreached.items()},
        source=source,
        tokens=read_tokens(probe_place(request.directory), request.partners),
    )


def read_tokens(place: Path, partners: tuple[int, ...]) -> tuple[int, ...]:
    """The node ranks whose file can be read here."""
    deadline = time.monotonic() + TOKENS_S
    while True:
        seen = tuple(rank for rank in partners if _holds(place / f"node-{rank}", str(rank)))
        if len(seen) == len(partners) or time.monotonic() > deadline:
            return seen
        time.sleep(0.1)


def clean(request: ProbeRequest) -> None:
    """Remove what this node wrote; whoever is last takes the directory away."""
    place = probe_place(request.directory)
    (place / f"node-{request.node_rank}").unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        place.rmdir()


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
    """One request, one answer."""
    request = decode(ProbeRequest, json.loads(text))
    os.umask(0o077)
    done = {"look": look, "meet": meet, "clean": clean}[request.stage](request)
    return json.dumps(encode(done))


if __name__ == "__main__":
    print(answer(sys.stdin.read()), flush=True)
