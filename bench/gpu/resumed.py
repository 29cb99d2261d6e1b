"""A run on one GPU that is stopped and resumed by `fsdpctl`: the seconds until it trains again."""

from __future__ import annotations

import json
import time

from bench.gpu.launched import LaunchedRun, fsdpctl
from bench.gpu.result import Result
from bench.gpu.training import Changes
from bench.gpu.workspace import Workspace
from fsdpctl.contract.paths import AttemptPaths

STEPS_BEFORE = 12


def resumed_by_command(workspace: Workspace, job: str, changed: Changes) -> Result:
    """Measure from the start of `fsdpctl resume` to the end of the first step, with a warm cache of the compiler.

    A peer's start is measured from torchrun on; this one has the command, the supervisor, the agent, its checks of the
    node and the fork server's imports before that.
    """
    config = workspace.config(job, workspace.gpus(1), 10_000, changed)
    overrides = [
        *(f"trainer.batch.{key}={value}" for key, value in config["batch"].items()),
        *(f"trainer.data.source={config['data']['source']}", "trainer.steps=10000", "procs_per_node=1"),
    ]
    with LaunchedRun.submit(workspace, "llm-tiny" if workspace.tiny else job, 1, overrides) as launched:
        launched.wait_steps(STEPS_BEFORE)
        fsdpctl(workspace, "stop", launched.run_id)
        steps_before = len(launched.metrics())
        began = time.time()
        fsdpctl(workspace, "resume", launched.run_id)
        launched.wait_steps(steps_before + 2)
        first, second = launched.metrics()[steps_before : steps_before + 2]
        parts = _parts(launched.paths.attempts()[-1], began, first["time"])
    ahead = second["time"] - first["time"]  # at most so much work was still queued on the device
    return Result(first_step_s=first["time"] - began + ahead, found=parts)


def _parts(attempt: AttemptPaths, began: float, ended: float) -> str:
    """Return what the rank worked at and how long, after what came before its first line, and if it had a graph."""
    lines = [json.loads(line) for line in attempt.node(0).work_log.read_text().splitlines()]
    works = [(line["work"], line["time"]) for line in lines if line["time"] < ended]
    ends = [*(time_s for _, time_s in works[1:]), ended]
    took = [(work, end - begin) for (work, begin), end in zip(works, ends, strict=True)]
    parts = [("to the rank's first line", works[0][1] - began), *took]
    graph = "loaded" if "compiled graph loaded" in attempt.node(0).rank_log(0).read_text() else "traced"
    return "; ".join([*(f"{part} {seconds:.1f} s" for part, seconds in parts if seconds > 0.1), f"graph {graph}"])
