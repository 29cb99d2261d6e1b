"""What a tracker is. A new one is a file beside this one, a row in `table`, and a name in `TrackerName`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

EndState = Literal["finished", "stopped", "failed"]


class TrackerError(Exception):
    """The service cannot be used now; the message names the reason. It is tried again."""


@dataclass(frozen=True)
class TrackedRun:
    """What a tracker gets to know of a run."""

    run_id: str
    job_name: str  # the default of W&B's project and of MLflow's experiment
    directory: Path  # where its files belong
    tensorboard: Path
    config: Mapping[str, Any]


@dataclass(frozen=True)
class Row:
    """The values of one step; of an evaluation as well, if there was one after it."""

    step: int
    time: float  # seconds since the epoch
    values: Mapping[str, float]


class Tracker(Protocol):
    """One run at one service. The run id of fsdpctl finds it again, from any machine."""

    def last_step(self) -> int | None:
        """Return the last step that the service has, -1 for a new run; None if it cannot be asked."""

    def send(self, rows: Sequence[Row]) -> None:
        """Add rows, in the order of steps. Raise any exception where they have to be sent again."""

    def close(self, end: EndState) -> None:
        """Finish the run at the service."""
