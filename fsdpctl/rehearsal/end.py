"""End a rehearsal, so that nothing of it is left on any machine."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace

from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import FsdpctlError
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.store import discard
from fsdpctl.verbs.stop import cancel

_HOST_S = 30.0


def end_and_remove(run: RunPaths) -> None:
    """End the run if it is there, and delete it. Raise FsdpctlError naming what is still alive."""
    if not run.root.exists():
        return
    cancel(run)
    plan = read_plan(run)
    discard(run)
    if not plan.shared_disk:
        _remove_on_hosts(run, plan)


def _remove_on_hosts(run: RunPaths, plan: LaunchPlan) -> None:
    """Delete the directory that each host has under the same path. One that does not answer now keeps it."""
    bare = replace(plan, setup=(), container=None)
    with closing(get_backend(plan.backend).open_probe_transport(bare)) as transport:
        for node in plan.nodes:
            with suppress(FsdpctlError):
                transport.run(node, ["rm", "-rf", "--", str(run.root)], b"", _HOST_S)
