"""Save and load the state of an Accelerator in the run's directory of checkpoints.

    first_step = load_state(accelerator)  # 0 in a new run
    ...
    if (stop := stop_requested()) or step % 100 == 0:
        save_state(accelerator, step)

Outside of a run the directory is `checkpoints`.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from fsdpctl.contract import Env
from fsdpctl.integrations.stop import check_same, stop_requested

if TYPE_CHECKING:
    from accelerate import Accelerator

__all__ = ["load_state", "save_state", "stop_requested"]

_REPLACED = ".replaced"


def save_state(accelerator: Accelerator, step: int) -> None:
    """Save on all ranks; the checkpoint gets its name once all have written, and replaces one of the same step."""
    final = _directory() / f"step-{step:08d}"
    partial = final.with_suffix(".partial")
    accelerator.save_state(str(partial))
    accelerator.wait_for_everyone()
    has_own_disk = os.environ.get(Env.SHARED_DISK) == "0"
    if accelerator.is_main_process or (has_own_disk and accelerator.is_local_main_process):
        publish(partial, final)
    accelerator.wait_for_everyone()


def load_state(accelerator: Accelerator) -> int:
    """Load the newest checkpoint on all ranks and return its step, or 0 without one. Raise RuntimeError where ranks
    have found different ones."""
    newest = find_newest(_directory())
    check_same(newest.name if newest is not None else None)
    if newest is None:
        return 0
    accelerator.load_state(str(newest))
    return _step_of(newest)


def publish(partial: Path, final: Path) -> None:
    """Give a checkpoint its name. At each moment it, or one that had the name before, is whole."""
    replaced = final.with_suffix(_REPLACED)
    if final.exists():
        shutil.rmtree(replaced, ignore_errors=True)
        final.rename(replaced)
    partial.rename(final)
    shutil.rmtree(replaced, ignore_errors=True)


def find_newest(folder: Path) -> Path | None:
    """Return the newest checkpoint; one that was being replaced only where nothing has its name."""
    found = (path for path in folder.glob("step-*") if path.suffix in ("", _REPLACED))
    return max(found, key=lambda path: (_step_of(path), path.suffix == ""), default=None)


def _step_of(path: Path) -> int:
    return int(path.stem.removeprefix("step-"))


def _directory() -> Path:
    return Path(os.environ.get(Env.CHECKPOINT_DIR, "checkpoints"))
