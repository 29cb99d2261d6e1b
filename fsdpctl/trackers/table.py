"""The trackers: one row each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from fsdpctl.contract.plan import TrackerName
from fsdpctl.trackers.mlflow import MlflowTracker
from fsdpctl.trackers.tensorboard import TensorBoardTracker
from fsdpctl.trackers.tracker import TrackedRun, Tracker
from fsdpctl.trackers.wandb import WandbTracker

TRACKERS: Mapping[TrackerName, Callable[[TrackedRun], Tracker]] = {
    "wandb": WandbTracker,
    "mlflow": MlflowTracker,
    "tensorboard": TensorBoardTracker,
}
"""Opening one imports its package and connects to its service."""
