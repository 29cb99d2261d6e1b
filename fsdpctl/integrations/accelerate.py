"""Save and load the state of an Accelerator in the run's directory of checkpoints.

    first_step = load_state(accelerator)  # 0 in a new run
    ...
    if (stop := stop_requested()) or step % 100 == 0:
        save_state(accelerator, step)

Outside of a run the directory is `checkpoints`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from fsdpctl.contract import Env
from fsdpctl.integrations.stop import stop_requested

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["load_state", "save_state", "stop_requested"]


def save_state(accelerator: Accelerator, step: int) -> None:
    """Save on all ranks; the checkpoint gets its name once all have written."""
    final = _directory() / f"step-{step:08d}"
    partial = final.with_suffix(".partial")
    accelerator.save_state(str(partial))
    accelerator.wait_for_everyone()
    has_own_disk = os.environ.get(Env.SHARED_DISK) == "0"
    if accelerator.is_main_process or (has_own_disk and accelerator.is_local_main_process):
        partial.rename(final)
    accelerator.wait_for_everyone()


def load_state(accelerator: Accelerator) -> int:
    """Load the newest checkpoint on all ranks and return its step, or 0 without one."""
    newest = max((path for path in _directory().glob("step-*") if path.suffix != ".partial"), default=None)
    if newest is None:
        return 0
    accelerator.load_state(str(newest))
    return int(newest.name.removeprefix("step-"))


def _directory() -> Path:
    return Path(os.environ.get(Env.CHECKPOINT_DIR, "checkpoints"))
