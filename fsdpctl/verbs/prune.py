"""Which checkpoints of a run must stay when older ones are removed."""

from __future__ import annotations

from pathlib import Path

from fsdpctl.contract import State
from fsdpctl.contract.formats.lease import find_leases
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import BusyError
from fsdpctl.runs.evidence import RunFacts
from fsdpctl.verbs.needed import read_needs
from fsdpctl.verbs.status import RunStatus, read_status


def why_not_ended(run: RunPaths, status: RunStatus) -> str:
    """Return why processes of a run may still read or write its files; empty if none does."""
    if status.state.is_alive:
        return f"it is {status.state}"
    if RunFacts(run).has_living_supervisor:
        return "its supervisor is still at work"
    return "it is LOST: processes of it may still run" if status.state is State.LOST else ""


def check_ended(run: RunPaths) -> None:
    """Raise BusyError for a run that may still save, or need any of its checkpoints."""
    name, status = run.root.name, read_status(run)
    if why := why_not_ended(run, status):
        hint = "try again in a moment"
        if status.state.is_alive:
            hint = f"fsdpctl stop {name}; a run keeps checkpoint.keep by itself"
        elif status.state is State.LOST:
            hint = f"fsdpctl resume {name} continues it, and keeps checkpoint.keep"
        raise BusyError(f"run {name} may need any of its checkpoints: {why}", hint=hint)


def why_needed(run: RunPaths, checkpoint: Path) -> str:
    """Return why a checkpoint of a run must stay now; empty if nothing needs it."""
    if checkpoint.name in find_leases(run.checkpoints):
        return "it is being read"
    needs = (need for need in read_needs() if need.is_of(run) and need.begins_within(checkpoint))
    return next((f"run {need.run_id} begins with it" for need in needs), "")
