"""Read the posts of transformers' `KubeflowCallback` as steps.

A post has a percentage and metrics as text: those of the newest log of the Trainer, `current_step`, `current_epoch` and
`total_steps`. The first one has only `total_steps`, and the last one no step: it reports 100 % however training ended.
Its estimate of the time left is not used: after a resume it divides the time since then by all steps.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from fsdpctl.node.progress.step_report import StepReport, choose_values, parse_count, parse_number

MAX_VALUES = 100
MAX_NAME = 100
_ROUNDING = 0.005
"""Of `current_epoch`, which has two decimals."""


class TrainerPosts:
    """The posts of one Trainer, in order."""

    def __init__(self) -> None:
        self._total: int | None = None
        self._step, self._epoch = 0, 0.0

    def read(self, body: bytes, time: float, *, is_stopping: bool) -> StepReport | None:
        """Return the step that a post reports; None for a post without one, and for anything else.

        `is_stopping`: the run has been asked to stop, so that an end of training may come before the last step.
        """
        try:
            status = json.loads(body)["trainerStatus"]
            metrics = {str(one["name"]): one["value"] for one in status.get("metrics", ())[:MAX_VALUES]}
            percent = status.get("progressPercentage")
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError):
            return None
        numbers = {name: parse_number(value) for name, value in metrics.items() if len(name) <= MAX_NAME}
        self._total = parse_count(numbers.pop("total_steps", None)) or self._total
        step, epoch = parse_count(numbers.pop("current_step", None)), numbers.pop("current_epoch", None)
        if step is not None:
            self._step, self._epoch = step, epoch or 0.0
        elif percent == 100 and not is_stopping and self._is_complete(numbers):
            step = self._total
        if step is None:
            return None
        if epoch is not None:
            numbers["epoch"] = epoch
        return StepReport(step, time, choose_values(numbers), self._total)

    def _is_complete(self, numbers: Mapping[str, float | None]) -> bool:
        """Return whether training has ended at its last step, and not before: by its epoch, as far as that is known."""
        epoch = numbers.get("epoch")
        if self._total is None or epoch is None:
            return False
        if self._epoch <= _ROUNDING:
            return True
        most_steps_an_epoch = self._step / (self._epoch - _ROUNDING)
        return epoch * most_steps_an_epoch >= self._total - 1
