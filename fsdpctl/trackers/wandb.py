"""Weights & Biases. The run id is that of fsdpctl, so a later attempt continues the run, also from another machine.

Server, project and key are W&B's own variables: WANDB_API_KEY (by `pass_env`), WANDB_BASE_URL, WANDB_PROJECT,
WANDB_ENTITY. With WANDB_MODE=offline nothing is sent: `wandb sync` sends `wandb/` of the run directory.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from fsdpctl.trackers.tracker import EndState, Row, TrackedRun, TrackerError

CONNECT_S = 30.0
"""Instead of 90: it is tried again."""


class WandbTracker:
    """One run at W&B, or in offline files for it."""

    def __init__(self, run: TrackedRun) -> None:
        try:
            import wandb
        except ImportError:
            raise TrackerError("wandb is not installed in the Python of the ranks: pip install wandb") from None
        settings = wandb.Settings(
            console="off",
            disable_code=True,
            disable_git=True,
            init_timeout=float(os.environ.get("WANDB_INIT_TIMEOUT") or CONNECT_S),
            silent=True,
            x_disable_stats=True,
        )
        try:
            self._run = wandb.init(
                id=run.run_id,
                name=run.run_id,
                project=os.environ.get("WANDB_PROJECT") or run.job_name,
                config=dict(run.config),
                dir=run.directory,
                resume="allow",
                allow_val_change=True,
                settings=settings,
            )
        except (wandb.Error, OSError) as error:
            raise TrackerError(f"W&B: {error}") from None
        self._last_step = self._run.starting_step - 1
        print("W&B:", self._run.url or f"offline, in {self._run.dir}", flush=True)

    def last_step(self) -> int | None:
        """Return the last step that the service had at the start, or that this process has logged; None offline."""
        return None if self._run.offline else self._last_step

    def send(self, rows: Sequence[Row]) -> None:
        """Give the rows to W&B's own process, which keeps them on disk until they are sent."""
        for row in rows:
            self._run.log(dict(row.values), step=row.step)
            self._last_step = row.step

    def close(self, end: EndState) -> None:
        """Send what is left, as far as the service is reachable."""
        self._run.finish(exit_code=int(end == "failed"))
