"""Report the progress of your own script, with one line per step. Outside of a run it does nothing.

    from fsdpctl.report import step
    ...
    step(number, total=2000, loss=loss.item())

A rank that reports its steps is watched like one of the bundled trainer, and the run shows step, values and, with
`total`, the time left in `status`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.files import open_log
from fsdpctl.contract.metrics_lines import metrics_line, remove_repeated
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.rank_progress import RankProgressWriter, Section


def step(number: int, *, total: int | None = None, **values: float) -> None:
    """Record that this rank has finished step `number`, of `total`. Rank 0 adds a line with the values to
    `metrics.jsonl`; its first one in an attempt replaces those of older attempts from this step on.

    Raise OSError where the line cannot be written.
    """
    if (reporter := _reporter()) is not None:
        reporter.report(number, total, values)


class _Reporter:
    """Writes the reports of one rank."""

    def __init__(self, node_dir: Path, rank: int) -> None:
        self._is_first = rank == 0
        node = NodePaths(node_dir)
        self._progress = RankProgressWriter(
            node.rank_progress(rank), work_log=node.work_log if self._is_first else None
        )
        self._metrics: int | None = None

    def report(self, step: int, total: int | None, values: Mapping[str, float]) -> None:
        self._progress.mark(Section.SCRIPT, step)
        if not self._is_first:
            return
        attempt = int(os.environ[Env.ATTEMPT])
        if self._metrics is None:
            path = RunPaths.of(os.environ[Env.RUN_DIR]).metrics
            remove_repeated(path, step, attempt)
            self._metrics = open_log(path)
        os.write(self._metrics, metrics_line(step, time.time(), attempt, values, total))


@cache
def _reporter() -> _Reporter | None:
    node_dir, rank = os.environ.get(Env.NODE_DIR), os.environ.get("RANK")
    return _Reporter(Path(node_dir), int(rank)) if node_dir and rank else None
