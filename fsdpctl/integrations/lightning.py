"""Callbacks for Lightning's Trainer: report steps, stop with a checkpoint after the same step on all ranks, resume.

`callbacks()` has those of this attempt, of `lightning.pytorch` or of `pytorch_lightning`.
"""

from __future__ import annotations

import importlib
import math
import os
from contextlib import suppress
from types import ModuleType
from typing import Any

from fsdpctl.contract import Env
from fsdpctl.integrations.lightning_ranks import refuse_wrong_ranks
from fsdpctl.integrations.stop import leave, stop_requested
from fsdpctl.node.os.signals import survive_term
from fsdpctl.report import step

_NAME = "stopped"


class _Stop:
    """Report steps; save and exit once a stop is requested."""

    last_step = 0
    total: int | None = None

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        self.total = _total_steps(trainer)
        survive_term()  # Lightning's handler broadcasts in the middle of whatever its rank does

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        number = trainer.global_step
        if number == self.last_step:  # gradients are accumulated
            return
        self.last_step = number
        values: dict[str, Any] = {} if self.total is None else {"total": self.total}
        if isinstance(outputs, dict) and trainer.log_every_n_steps and number % trainer.log_every_n_steps == 0:
            values["loss"] = float(outputs["loss"])
        step(number, **values)
        if stop_requested():
            trainer.save_checkpoint(f"{_directory()}/{_NAME}.ckpt")
            leave()


class _Resume:
    """As a checkpoint on an exception, it lets `fit` without `ckpt_path` resume: from the checkpoint of the last stop,
    or from a newer `last.ckpt` of ModelCheckpoint."""

    def on_exception(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Save nothing: a rank that fails alone would wait for the others."""

    def teardown(self, trainer: Any, *args: Any, **kwargs: Any) -> None:
        """Keep the checkpoint."""


def callbacks(package: str = "lightning.pytorch") -> list[Any]:
    """Return the callbacks of this attempt."""
    try:
        base = importlib.import_module(f"{package}.callbacks")
    except ImportError as error:
        raise ImportError(f"fsdpctl.integrations.lightning needs {package}: pip install lightning") from error
    stop = type("StopCallback", (_Stop, base.Callback), {})()
    resume = type("ResumeCallback", (_Resume, base.OnExceptionCheckpoint), {})(_directory(), _NAME)
    return [stop, resume] if int(os.environ.get(Env.ATTEMPT, "1")) > 1 else [stop]


def attach(connector: ModuleType) -> None:
    """Give the callbacks to each Trainer, beside those that packages register, and refuse one for fewer ranks."""
    registered, package = connector._load_external_callbacks, connector.__name__.partition(".trainer.")[0]
    connector._load_external_callbacks = lambda group: [  # type: ignore[attr-defined]
        *registered(group),
        *callbacks(package),
    ]
    prepared = connector._CallbackConnector._attach_model_callbacks

    def prepare(self: Any) -> None:
        refuse_wrong_ranks(self.trainer)
        prepared(self)

    connector._CallbackConnector._attach_model_callbacks = prepare


def _total_steps(trainer: Any) -> int | None:
    """Return the number of optimizer steps of the whole `fit`; None where that is not known."""
    steps = trainer.max_steps
    with suppress(Exception):  # other accumulation in each epoch
        steps = trainer.estimated_stepping_batches
    return int(steps) if 0 < steps < math.inf else None


def _directory() -> str:
    return os.environ.get(Env.CHECKPOINT_DIR, ".")
