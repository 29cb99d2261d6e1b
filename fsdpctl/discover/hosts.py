"""Look at hosts over SSH, or at this machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from fsdpctl.backends.base import ProbeTransport
from fsdpctl.backends.fanout import HostError, fan_out
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.codec import CodecError, decode, encode
from fsdpctl.contract.findings import ProbeRequest
from fsdpctl.contract.host import HostDescription
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.doctor.payload import build_payload, last_line, probe_argv
from fsdpctl.specs.profile import Node

LOOK_S = 120.0

# The first python that is new enough answers, and becomes that of the profile: one with torch comes first.
_CHOOSE_PYTHON = """
boot=$1; shift
for python do
  command -v "$python" >/dev/null 2>&1 || continue
  "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue
  [ -n "$usable" ] || usable=$python
  "$python" -c 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)' 2>/dev/null || continue
  exec "$python" -c "$boot"
done
[ -n "$usable" ] && exec "$usable" -c "$boot"
echo "no python of 3.11 or newer is on the PATH" >&2
exit 1
"""
_PYTHONS = ("python3", "python", "python3.14", "python3.13", "python3.12", "python3.11")


@dataclass(frozen=True)
class SeenHost:
    """One host, and what was seen there or why nothing was."""

    node: Node
    description: HostDescription | None
    error: str = ""


def look_at_hosts(plan: LaunchPlan, nodes: Sequence[Node], own_python: str) -> list[SeenHost]:
    """Describe all nodes of a plan, at the same time."""
    with closing(get_backend(plan.backend).open_probe_transport(plan)) as transport:
        results = fan_out(range(len(nodes)), lambda rank: _describe(transport, rank, own_python))
    return [SeenHost(node, result.value, str(result.error or "")) for node, result in zip(nodes, results, strict=True)]


def _describe(transport: ProbeTransport, rank: int, own_python: str) -> HostDescription:
    plan = transport.plan
    head = plan.nodes[0].address or "127.0.0.1"
    request = ProbeRequest("describe", plan, rank, directory="", head=head)
    *_, boot = probe_argv("python3")
    argv = ["sh", "-c", _CHOOSE_PYTHON, "sh", boot, own_python, *_PYTHONS]
    answer = transport.run(plan.nodes[rank], argv, build_payload(json.dumps(encode(request))), LOOK_S)
    try:
        return decode(HostDescription, json.loads(last_line(answer, "python3")))
    except (ValueError, CodecError) as error:
        raise HostError(f"the answer cannot be read: {error}") from None
