"""Callbacks for Lightning's Trainer: report steps, stop with a checkpoint after the same step on all ranks, resume."""

from __future__ import annotations

import os
from types import ModuleType
from typing import Any

from lightning.pytorch.callbacks import Callback, OnExceptionCheckpoint

from fsdpctl.contract import Env
from fsdpctl.integrations.stop import leave, stop_requested
from fsdpctl.node.os.signals import survive_term
from fsdpctl.report import step


class StopCallback(Callback):
    """Report steps; save and exit once a stop is requested."""

    _last_step = 0

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        survive_term()  # Lightning's handler broadcasts in the middle of whatever its rank does

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        number = trainer.global_step
        if number == self._last_step:  # gradients are accumulated
            return
        self._last_step = number
        has_loss = isinstance(outputs, dict) and number % trainer.log_every_n_steps == 0
        step(number, **({"loss": float(outputs["loss"])} if has_loss else {}))
        if stop_requested():
            trainer.save_checkpoint(ResumeCallback().ckpt_path)
            leave()


class ResumeCallback(OnExceptionCheckpoint):
    """Let `fit` without `ckpt_path` resume, as Lightning does after an exception: from the newest of the checkpoint of
    the last stop and the `last.ckpt` of ModelCheckpoint."""

    def __init__(self) -> None:
        super().__init__(os.environ.get(Env.CHECKPOINT_DIR, "."), "stopped")

    def on_exception(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Save nothing: a rank that fails alone would wait for the others."""

    def teardown(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Keep the checkpoint."""


def callbacks() -> list[Callback]:
    """Return the callbacks of this attempt."""
    return [StopCallback(), *([ResumeCallback()] if int(os.environ.get(Env.ATTEMPT, "1")) > 1 else [])]


def attach(connector: ModuleType) -> None:
    """Give the callbacks to each Trainer, beside those that packages register."""
    registered = connector._load_external_callbacks
    connector._load_external_callbacks = lambda group: [*registered(group), *callbacks()]  # type: ignore[attr-defined]
