"""Report the progress of your own script, with one line per step. Outside of a run it does nothing.

    from fsdpctl.report import step
    ...
    step(number, loss=loss.item())

A rank that reports its steps is watched like one of the bundled trainer, and the run shows step and values in `status`.
"""

from __future__ import annotations

import json
import os
import time
from functools import cache
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.files import open_log
from fsdpctl.contract.paths import NodePaths, RunPaths
from fsdpctl.contract.rank_progress import RankProgressWriter, Section


def step(number: int, **values: float) -> None:
    """Record that this rank has finished step `number`. Rank 0 adds a line with the values to `metrics.jsonl`.

    Raise OSError where the line cannot be written.
    """
    writer = _writer()
    if writer is None:
        return
    writer.mark(Section.SCRIPT, number)
    if (metrics := _metrics()) is not None:
        line = {"step": number, "time": time.time(), "attempt": int(os.environ[Env.ATTEMPT]), **values}
        os.write(metrics, (json.dumps(line) + "\n").encode())


@cache
def _writer() -> RankProgressWriter | None:
    node_dir, rank = os.environ.get(Env.NODE_DIR), os.environ.get("RANK")
    return RankProgressWriter(NodePaths(Path(node_dir)).rank_progress(int(rank))) if node_dir and rank else None


@cache
def _metrics() -> int | None:
    return open_log(RunPaths.of(os.environ[Env.RUN_DIR]).metrics) if os.environ["RANK"] == "0" else None
