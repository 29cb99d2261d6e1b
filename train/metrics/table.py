"""The metrics writers: one row each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from train.context import RankContext
from train.metrics.jsonl import JsonlWriter
from train.metrics.progress_log import ProgressLog
from train.metrics.tensorboard import TensorBoardWriter
from train.metrics.writer import MetricsWriter


@dataclass(frozen=True)
class WriterRow:
    """How a writer is opened for training that starts after `start_step` steps."""

    open: Callable[[RankContext, int], MetricsWriter]
    once_a_disk: bool = False  # on each disk of the run, where nodes share none; else on rank 0 alone


WRITERS = (
    WriterRow(JsonlWriter.open, once_a_disk=True),
    WriterRow(TensorBoardWriter.open),
    WriterRow(ProgressLog.open),
)


def open_writers(context: RankContext, start_step: int) -> list[MetricsWriter]:
    """Open the writers of this rank."""
    world = context.world
    return [row.open(context, start_step) for row in WRITERS if (world.is_writer if row.once_a_disk else world.is_main)]
