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
    """Open the writers of this rank. `context.cleanup` closes each of them, on every way out."""
    writers = []
    for row in WRITERS:
        if context.world.is_writer if row.once_a_disk else context.world.is_main:
            writer = row.open(context, start_step)
            context.cleanup.callback(writer.close)
            writers.append(writer)
    return writers
