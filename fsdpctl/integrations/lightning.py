"""Callbacks for Lightning's Trainer: report steps, stop with a checkpoint after the same step on all ranks, resume.

`callbacks()` has those of this attempt, of `lightning.pytorch` or of `pytorch_lightning`.
"""

from __future__ import annotations

import importlib
import math
import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from fsdpctl.contract import Env
from fsdpctl.integrations.lightning_ranks import refuse_wrong_ranks
from fsdpctl.integrations.stop import leave, stop_requested, wait_for_all_ranks
from fsdpctl.node.os.signals import survive_term
from fsdpctl.report import step

_NAME = re.compile(r"(stopped(?:-(\d+))?)\.ckpt(\.partial)?")


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
        is_logged = trainer.log_every_n_steps and number % trainer.log_every_n_steps == 0
        if is_logged and (loss := loss_of(outputs, trainer.accumulate_grad_batches)) is not None:
            values["loss"] = loss
        step(number, **values)
        if stop_requested():
            _save(trainer)
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
    newest = find_stopped(Path(_directory())) or _own_name()
    resume = type("ResumeCallback", (_Resume, base.OnExceptionCheckpoint), {})(_directory(), newest)
    return [stop, resume] if _attempt() > 1 else [stop]


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


def loss_of(outputs: Any, accumulated: int) -> float | None:
    """Return the loss that `training_step` has returned; None without one. Lightning divides it by `accumulated`."""
    loss = outputs.get("loss") if isinstance(outputs, dict) else None
    if loss is None or math.prod(getattr(loss, "shape", ())) != 1:  # any shape, where the script optimizes by itself
        return None
    return float(loss) * accumulated


def find_stopped(folder: Path) -> str | None:
    """Return the newest complete checkpoint of a stop, without its suffix; None without one."""
    found = {int(name[2] or 0): name[1] for path in folder.glob("stopped*") if (name := _match(path)) and not name[3]}
    return found[max(found)] if found else None


def publish(partial: Path, final: Path) -> None:
    """Give a checkpoint of a stop its name, and then remove the others."""
    partial.rename(final)
    for other in final.parent.glob("stopped*"):
        if other != final and _match(other):
            shutil.rmtree(other, ignore_errors=True) if other.is_dir() else other.unlink(missing_ok=True)


def _save(trainer: Any) -> None:
    """Save on all ranks, by a name of this attempt: the last stop's checkpoint is whole until this one is."""
    final = Path(_directory(), f"{_own_name()}.ckpt")
    partial = final.with_name(f"{final.name}.partial")
    trainer.save_checkpoint(str(partial))
    trainer.strategy.checkpoint_io.teardown()  # it may still write, in a thread
    wait_for_all_ranks()
    if trainer.is_global_zero:
        publish(partial, final)


def _match(path: Path) -> re.Match[str] | None:
    return _NAME.fullmatch(path.name)


def _own_name() -> str:
    return f"stopped-{_attempt()}"


def _attempt() -> int:
    return int(os.environ.get(Env.ATTEMPT, "1"))


def _total_steps(trainer: Any) -> int | None:
    """Return the number of optimizer steps of the whole `fit`; None where that is not known."""
    steps = trainer.max_steps
    with suppress(Exception):  # other accumulation in each epoch
        steps = trainer.estimated_stepping_batches
    return int(steps) if 0 < steps < math.inf else None


def _directory() -> str:
    return os.environ.get(Env.CHECKPOINT_DIR, ".")
