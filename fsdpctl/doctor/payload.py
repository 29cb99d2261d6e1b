"""What travels to a node and comes back. The node side travels too: a doctor cannot rely on a shared disk."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

from fsdpctl.backends.fanout import HostError, explain_exit
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch import snapshot

# Read by whatever python the profile names, so that an old one can say that it is old.
_BOOT = """
import sys
if sys.version_info < (3, 11):
    sys.exit("python 3.11 or newer is needed, this is %d.%d" % sys.version_info[:2])
import tempfile
given = sys.stdin.buffer
with tempfile.NamedTemporaryFile(suffix=".zip") as package:
    package.write(given.read(int(given.readline())))
    package.flush()
    sys.path.insert(0, package.name)
    from fsdpctl.node.queries.probe import answer
    print(answer(given.read().decode()))
"""


def probe_argv(plan: LaunchPlan) -> list[str]:
    """What reads the parcel on a node, once the profile's `setup` has run."""
    return [plan.python, "-c", _BOOT]


def build_payload(request: str) -> bytes:
    """What the probe reads: the length of the node side, the node side, the request."""
    package = Path(snapshot.__file__).parent.parent
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in snapshot.node_side(package):
            archive.write(package / name, f"{package.name}/{name}")
    code = packed.getvalue()
    return b"%d\n%b%b" % (len(code), code, request.encode())


def last_line(plan: LaunchPlan, code: int, stdout: str, stderr: str) -> str:
    """The answer. Raises HostError with the last words of a probe that gave none."""
    lines = stdout.strip().splitlines()
    if code == 0 and lines:
        return lines[-1]
    raise HostError(explain_exit(code, stdout, stderr, plan.python))
