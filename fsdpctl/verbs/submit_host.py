"""The submitting machine's part of a plan, and where the runs of a profile are."""

from __future__ import annotations

import sys
from pathlib import Path

from fsdpctl.backends.table import get_backend
from fsdpctl.errors import UsageError
from fsdpctl.launch.host import SubmitHost
from fsdpctl.node.checks.smi import visible_gpus
from fsdpctl.runs.registry import default_runs_root
from fsdpctl.specs.notify import plan_targets
from fsdpctl.specs.profile import ClusterProfile
from fsdpctl.specs.settings import load_settings


def runs_root_of(profile: ClusterProfile) -> Path:
    """Return the absolute directory of a profile's runs: they are used from any directory. Raise UsageError."""
    if not profile.runs_root:
        return default_runs_root()
    try:
        return Path(profile.runs_root).expanduser().absolute()
    except RuntimeError:  # also for a user id without an entry, as in some containers
        raise UsageError(
            f"runs_root {profile.runs_root}: there is no such home directory", hint="write its absolute path"
        ) from None


def submit_host(profile: ClusterProfile, runs_root: Path, run_id: str, submit_dir: Path) -> SubmitHost:
    """Return this machine's part of a plan; GPUs only if they are used, as the driver may take seconds."""
    has_own_gpus = get_backend(profile.backend.kind).runs_here and profile.gpus_per_node != 0
    return SubmitHost(
        run_id=run_id,
        run_dir=str(runs_root / run_id),
        submit_dir=str(submit_dir),
        python=sys.executable,
        gpus=tuple(visible_gpus()) if has_own_gpus else (),
        notify=plan_targets(load_settings().notify),
    )
