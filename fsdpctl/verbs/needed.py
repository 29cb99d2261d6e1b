"""What living runs need of other ones: that one succeeds before they start, or the weights that they begin with."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import State
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.store import list_runs
from fsdpctl.verbs.status import RunStatus, read_statuses


@dataclass(frozen=True)
class Need:
    """What one run needs."""

    run_id: str  # of the run that needs it
    after: str | None  # id of the run that must succeed before
    weights: str | None  # path, without links

    def is_of(self, run: RunPaths) -> bool:
        """Return whether it needs something of this run, which is another one."""
        if self.run_id == run.root.name:
            return False
        return self.after == run.root.name or self.begins_within(run.checkpoints)

    def begins_within(self, directory: Path) -> bool:
        """Return whether it begins with weights that are in this directory."""
        return self.weights is not None and Path(self.weights).is_relative_to(os.path.realpath(directory))


def read_needs() -> list[Need]:
    """Return what the runs need that are alive or not yet started, as it is now."""
    listed = {one.run_id: one for one in list_runs() if one.record is not None}
    needs = [Need(name, _find_awaited(one.paths), _find_weights(one.paths)) for name, one in listed.items()]
    found = [need for need in needs if need.after is not None or need.weights is not None]
    statuses = read_statuses([listed[need.run_id] for need in found], with_speed=False)
    return [need for need in found if _may_start(statuses[need.run_id])]


def _may_start(status: RunStatus | str) -> bool:
    """Return whether a run is alive or not yet started, as far as that is known."""
    return isinstance(status, str) or status.state.is_alive or status.state is State.PLANNED


def _find_awaited(run: RunPaths) -> str | None:
    with suppress(OSError, CodecError):
        after = read_plan(run).after
        return after.run_id if after is not None else None
    return None


def _find_weights(run: RunPaths) -> str | None:
    """Return the weights that it begins with; the rest of its configuration may be of another version."""
    with suppress(OSError, ValueError):
        config = json.loads(read_bytes(run.trainer_config))
        init_from = config.get("init_from") if isinstance(config, dict) else None
        return os.path.realpath(init_from) if isinstance(init_from, str) else None
    return None
