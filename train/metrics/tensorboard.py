"""TensorBoard scalars, as far as possible: a missing or broken package, or a full disk, is one warning, no more."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from train.context import RankContext
from train.metrics.writer import HeldOutLoss, MetricsWriter, StepMetrics

log = logging.getLogger(__name__)

SCALARS = ("loss", "lr", "grad_norm", "tokens_per_s", "mfu", "peak_memory_gib", "skipped", "loss_scale")


class TensorBoardWriter(MetricsWriter):
    """Writes an event file, which replaces the steps of older ones that training repeats."""

    def __init__(self, directory: Path, start_step: int) -> None:
        self._writer: Any = None
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            log.warning("tensorboard is not installed: no TensorBoard files, metrics.jsonl has everything")
            return
        except Exception as error:  # of a protobuf or numpy that does not fit
            log.warning("tensorboard cannot be imported: no TensorBoard files, metrics.jsonl has everything: %s", error)
            return
        self._guarded(lambda: setattr(self, "_writer", SummaryWriter(str(directory), purge_step=start_step + 1)))

    @classmethod
    def open(cls, context: RankContext, start_step: int) -> TensorBoardWriter:
        """Begin an event file of the run."""
        return cls(context.paths.tensorboard, start_step)

    def write(self, metrics: StepMetrics) -> None:
        """Add the scalars of one step below train/."""
        for name in SCALARS:
            if (value := getattr(metrics, name)) is not None:
                self._add(f"train/{name}", value, metrics.step)

    def write_held_out(self, held_out: HeldOutLoss) -> None:
        """Add eval/held_out_loss."""
        self._add("eval/held_out_loss", held_out.loss, held_out.step)

    def close(self) -> None:
        """Flush and close the event file."""
        if self._writer:
            self._guarded(self._writer.close)

    def _add(self, name: str, value: float, step: int) -> None:
        if self._writer:
            self._guarded(lambda: self._writer.add_scalar(name, value, step))

    def _guarded(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as error:  # of the disk, or of a package that does not fit
            log.warning("no more TensorBoard files: %s", error)
            self._writer = None
