"""How a question gets to a node: the whole node side travels with it, because a doctor cannot rely on a shared disk.

A `Reach` runs the probe on one node and gives back its last line. It raises HostError with the reason in one line.
"""

from __future__ import annotations

import io
import os
import subprocess
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from fsdpctl import snapshot
from fsdpctl.contract.plan import LaunchPlan, PlannedNode
from fsdpctl.errors import UsageError
from fsdpctl.launchers.agents import with_setup
from fsdpctl.launchers.environment import own_environment
from fsdpctl.launchers.fanout import HostError
from fsdpctl.specs.model import ClusterProfile, LocalBackend, SshBackend

Reach = Callable[[PlannedNode, str, float], str]
"""node, request, time limit in seconds -> answer"""

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
    from fsdpctl.node.probe import answer
    print(answer(given.read().decode()))
"""


@contextmanager
def open_reach(profile: ClusterProfile, plan: LaunchPlan) -> Iterator[Reach]:
    """The way to the nodes of a profile, closed at the end."""
    match profile.backend:
        case SshBackend() as backend:
            from fsdpctl.doctor.reach_ssh import SshReach

            way = SshReach(plan, backend)
            try:
                yield way.ask
            finally:
                way.close()
        case LocalBackend():
            yield lambda node, request, limit_s: ask_local(plan, node, request, limit_s)
        case backend:
            raise UsageError(
                f"doctor cannot reach the nodes of a {backend.kind} profile: they are known once they are allocated",
                hint="the same node check runs at the start of each attempt; `fsdpctl submit JOB --smoke` tries it",
            )


def ask_local(plan: LaunchPlan, node: PlannedNode, request: str, limit_s: float) -> str:
    """A node of this machine is a process with that node's environment."""
    env = {**own_environment(os.environ), **plan.env, **node.env}
    argv = probe_argv(plan)
    try:
        done = subprocess.run(argv, input=parcel(request), env=env, cwd="/", capture_output=True, timeout=limit_s)
    except FileNotFoundError:
        raise HostError(f"the profile's python does not exist here: {plan.python}") from None
    except subprocess.TimeoutExpired:
        raise HostError(f"no answer within {limit_s:.0f} s") from None
    return last_line(plan, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace"))


def probe_argv(plan: LaunchPlan) -> list[str]:
    return with_setup(plan.setup, [plan.python, "-c", _BOOT])


def parcel(request: str) -> bytes:
    """What the probe reads: the length of the node side, the node side, the request."""
    package = Path(snapshot.__file__).parent
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
    if code == 127:
        raise HostError(f"the profile's python does not exist there: {plan.python}")
    said = (stderr.strip() or stdout.strip()).splitlines()
    raise HostError(f"exit code {code}: {said[-1] if said else 'it said nothing'}")
