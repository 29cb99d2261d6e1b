"""What travels to a node and comes back. The node side travels too: a doctor cannot rely on a shared disk."""

from __future__ import annotations

import io
import zipfile

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError, explain_exit
from fsdpctl.launch.snapshot import PACKAGE, node_side

# Read by whatever python the profile names, so that an old one can report that it is old.
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


def probe_argv(python: str) -> list[str]:
    """Return the command that reads the payload on a node."""
    return [python, "-c", _BOOT]


def build_payload(request: str) -> bytes:
    """Return what the probe reads: the length of the node side, the node side, the request."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in node_side():
            archive.write(PACKAGE / name, f"{PACKAGE.name}/{name}")
    code = packed.getvalue()
    return b"%d\n%b%b" % (len(code), code, request.encode())


def last_line(answer: NodeAnswer, python: str) -> str:
    """Return what the probe printed. Raises HostError with the last line of one that gave no answer."""
    lines = answer.stdout.strip().splitlines()
    if answer.code == 0 and lines:
        return lines[-1]
    raise HostError(explain_exit(answer.code, answer.stdout, answer.stderr, python))
