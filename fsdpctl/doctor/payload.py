"""The code and request that doctor sends to a node, and the answer. The code is sent because no disk may be shared."""

from __future__ import annotations

import io
import zipfile

from fsdpctl.backends.base import NodeAnswer
from fsdpctl.backends.fanout import HostError, explain_exit
from fsdpctl.launch.snapshot import PACKAGE, node_side

# Read by whatever python the profile names, so that one that is too old reports that.
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
    """Return the probe's stdin: the length of the zipped node side, the zip, the request as JSON."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in node_side():
            archive.write(PACKAGE / name, f"{PACKAGE.name}/{name}")
    code = packed.getvalue()
    return b"%d\n%b%b" % (len(code), code, request.encode())


def last_line(answer: NodeAnswer, python: str) -> str:
    """Return the line that the probe printed. Raise HostError with the exit code and last line of one that failed."""
    lines = answer.stdout.strip().splitlines()
    if answer.code == 0 and lines:
        return lines[-1]
    raise HostError(explain_exit(answer.code, answer.stdout, answer.stderr, python))
