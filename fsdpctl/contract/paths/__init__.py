"""The directories of runs and holds: where each file is. No other module joins these names."""

from __future__ import annotations

from fsdpctl.contract.paths.attempt import AttemptPaths
from fsdpctl.contract.paths.checkpoint import CHECKPOINT_MANIFEST, CHECKPOINT_PREFIX, checkpoint_name, step_of
from fsdpctl.contract.paths.hold import HoldPaths
from fsdpctl.contract.paths.node import NodePaths, times_of
from fsdpctl.contract.paths.run import RunPaths

__all__ = [
    "CHECKPOINT_MANIFEST",
    "CHECKPOINT_PREFIX",
    "DIR_MODE",
    "AttemptPaths",
    "HoldPaths",
    "NodePaths",
    "RunPaths",
    "checkpoint_name",
    "step_of",
    "times_of",
]

DIR_MODE = 0o700
"""Mode of every directory of a run."""
