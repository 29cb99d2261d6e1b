"""The launchers by name, each imported when it is first needed."""

from __future__ import annotations

import importlib
from typing import cast

from fsdpctl.contract.plan import BackendName
from fsdpctl.launchers.base import Launcher

_MODULES: dict[BackendName, str] = {
    "local": "fsdpctl.launchers.local",
    "slurm": "fsdpctl.launchers.slurm.launcher",
    "ssh": "fsdpctl.launchers.ssh.launcher",
}


def get_launcher(backend: BackendName) -> Launcher:
    return cast(Launcher, importlib.import_module(_MODULES[backend]))
