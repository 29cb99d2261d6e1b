"""What a backend brings, each part imported when it is first needed."""

from __future__ import annotations

import importlib
from typing import cast

from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import BackendName, LaunchPlan
from fsdpctl.launchers.base import Agents, Launcher

_MODULES: dict[BackendName, str] = {
    "local": "fsdpctl.launchers.local.launcher",
    "slurm": "fsdpctl.launchers.slurm.launcher",
    "ssh": "fsdpctl.launchers.ssh.launcher",
}


def get_launcher(backend: BackendName) -> Launcher:
    return cast(Launcher, importlib.import_module(_MODULES[backend]))


def open_agents(run: RunPaths, plan: LaunchPlan) -> Agents:
    """The node agents of a run that has a supervisor of ours."""
    if plan.backend == "ssh":
        from fsdpctl.launchers.ssh.agents import SshAgents

        return SshAgents(run, plan)
    from fsdpctl.launchers.local.agents import LocalAgents

    return LocalAgents(run, plan)
