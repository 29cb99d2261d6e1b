"""supervise: give a run its supervisor back, where that was killed or its host went down."""

from __future__ import annotations

from fsdpctl.backends.detached.control import find_supervisor, has_ended, start_supervisor
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import UsageError
from fsdpctl.runs.store import locked, open_record


def supervise(run: RunPaths) -> bool:
    """Start the run's supervisor, which goes on where the last one stood; False when the run needs none."""
    with locked(run):
        if open_record(run).backend == "slurm":
            raise UsageError(f"{run.root.name} runs under Slurm, which keeps it alive itself")
        if not run.attempts():
            raise UsageError(f"{run.root.name} was never started", hint=f"fsdpctl resume {run.root.name}")
        if has_ended(run) or find_supervisor(run) is not None:
            return False
        start_supervisor(run)
        return True
