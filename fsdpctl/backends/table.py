"""What a backend brings, each part imported when it is first needed."""

from __future__ import annotations

import importlib
from typing import cast

from fsdpctl.backends.base import Agents, Launcher
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import BackendName, LaunchPlan

_MODULES: dict[BackendName, str] = {
    "local": "fsdpctl.backends.local.launcher",
    "slurm": "fsdpctl.backends.slurm.launcher",
    "ssh": "fsdpctl.backends.ssh.launcher",
}


def get_launcher(backend: BackendName) -> Launcher:
    return cast(Launcher, importlib.import_module(_MODULES[backend]))


def open_agents(run: RunPaths, plan: LaunchPlan) -> Agents:
    """The node agents of a run that has a supervisor of ours."""
    if plan.backend == "ssh":
        from fsdpctl.backends.ssh.agents import SshAgents

        return SshAgents(run, plan)
    from fsdpctl.backends.local.agents import LocalAgents

    return LocalAgents(run, plan)
