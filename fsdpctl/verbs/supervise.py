"""supervise: start a run's supervisor again, after it was killed or its host went down."""

from __future__ import annotations

from fsdpctl.backends.detached.control import start_supervisor
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import UsageError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.runs.store import locked, open_record


def supervise(run: RunPaths) -> bool:
    """Start the run's supervisor, which continues where the last one ended; return False if the run needs none."""
    with locked(run):
        facts = RunFacts(run)
        if get_backend(open_record(run).backend).has_scheduler and facts.supervisor is None:
            raise UsageError(f"{run.root.name} runs under a scheduler, which keeps it alive itself")
        if facts.newest is None:
            raise UsageError(f"{run.root.name} was never started", hint=f"fsdpctl resume {run.root.name}")
        if facts.has_ended or facts.has_living_supervisor:
            return False
        start_supervisor(run)
        return True
