"""The names in the directory of checkpoints."""

from __future__ import annotations

CHECKPOINT_PREFIX = "step-"
CHECKPOINT_MANIFEST = "manifest.json"


def checkpoint_name(step: int) -> str:
    """Return the directory name of the checkpoint taken after `step` optimizer steps."""
    return f"{CHECKPOINT_PREFIX}{step:08d}"


def step_of(name: str) -> int:
    """Return the step in the name of a checkpoint's directory."""
    return int(name.removeprefix(CHECKPOINT_PREFIX))
