"""Find checkpoints of transformers' Trainer from which it can resume."""

from __future__ import annotations

import os
import re
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any

from fsdpctl.contract import Env

_NAME = re.compile(r"checkpoint-(\d+)")
_MARK = "fsdpctl-run.txt"


def get_last_checkpoint(folder: str) -> str | None:
    """Return the newest checkpoint in `folder`, as transformers' function does, but never one that is not complete.

    Trainer writes its state last; its just-in-time checkpoint removes a mark at the end.
    """
    return _newest([path for path in Path(folder).glob("checkpoint-*") if _is_complete(path)])


def mark_saved(folder: str, step: int) -> None:
    """Record in a checkpoint that all ranks of this attempt have saved it. A Trainer may save in another place, as
    trials of `hyperparameter_search` do: nothing resumes from that, and nothing is recorded."""
    checkpoint = Path(folder, f"checkpoint-{step}")
    if checkpoint.is_dir():
        (checkpoint / _MARK).write_text(f"{os.environ.get(Env.RUN_ID)} {os.environ.get(Env.ATTEMPT)}")


def find_own_checkpoint(folder: str) -> str | None:
    """Return the newest checkpoint in `folder` that an older attempt of this run has saved."""
    older = {f"{os.environ.get(Env.RUN_ID)} {number}" for number in range(1, int(os.environ.get(Env.ATTEMPT, "1")))}
    return _newest([mark.parent for mark in Path(folder).glob(f"checkpoint-*/{_MARK}") if mark.read_text() in older])


def attach(trainer_utils: ModuleType) -> None:
    """Let scripts and Trainer itself find complete checkpoints only."""
    trainer_utils.get_last_checkpoint = get_last_checkpoint  # type: ignore[attr-defined]


def resuming(train: Any) -> Any:
    """Return `Trainer.train` that resumes from this run's newest checkpoint where the script names none."""

    @wraps(train)
    def resume(self: Any, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        if resume_from_checkpoint is None:
            from fsdpctl.integrations.stop import check_same

            resume_from_checkpoint = check_same(find_own_checkpoint(self.args.output_dir))
            if resume_from_checkpoint is not None:
                print(f"fsdpctl: resuming from {resume_from_checkpoint}", flush=True)
        return train(self, resume_from_checkpoint, *args, **kwargs)

    return resume


def _is_complete(path: Path) -> bool:
    return (path / "trainer_state.json").exists() and not (path / "checkpoint-is-incomplete.txt").exists()


def _newest(found: list[Path]) -> str | None:
    numbers = {int(match[1]): path for path in found if (match := _NAME.fullmatch(path.name))}
    return str(numbers[max(numbers)]) if numbers else None
