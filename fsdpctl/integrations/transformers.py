"""A callback for transformers' Trainer: report steps, and stop with a checkpoint after the same step on all ranks."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any

from fsdpctl.contract.metrics_lines import RESERVED
from fsdpctl.integrations.stop import leave, stop_requested, wait_for_all_ranks
from fsdpctl.integrations.trainer_checkpoints import mark_saved, resuming
from fsdpctl.node.os.signals import survive_term
from fsdpctl.report import step

try:
    from transformers import TrainerCallback
except ImportError as error:
    raise ImportError("fsdpctl.integrations.transformers needs transformers: pip install transformers") from error


class StopCallback(TrainerCallback):
    """Report steps; save and exit once a stop is requested."""

    is_stopping = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if getattr(args, "enable_jit_checkpoint", False):  # saves at TERM, on each rank after a step of its own
            survive_term()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if stop_requested():
            self.is_stopping = control.should_save = control.should_training_stop = True
            control.should_evaluate = False
        if not control.should_log:
            step(state.global_step, total=state.max_steps)

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **kwargs: Any) -> None:
        if logs and "loss" in logs:
            step(state.global_step, total=state.max_steps, **values_of(logs))

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        wait_for_all_ranks()
        if args.should_save:
            mark_saved(args.output_dir, state.global_step)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if self.is_stopping:
            leave()


def values_of(logs: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers of a log whose names mean nothing else to `report.step`, or in a line of metrics."""
    taken = ("number", *RESERVED)
    return {name: value for name, value in logs.items() if isinstance(value, int | float) and name not in taken}


def attach(trainer: ModuleType) -> None:
    """Give the callback to each Trainer, and let it resume."""
    trainer.DEFAULT_CALLBACKS.append(StopCallback)
    trainer.Trainer.train = resuming(trainer.Trainer.train)
