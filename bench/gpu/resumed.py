"""A run on one GPU that is stopped and resumed by `fsdpctl`: the seconds until it trains again."""

from __future__ import annotations

import time

from bench.gpu.launched import LaunchedRun, fsdpctl
from bench.gpu.result import Result
from bench.gpu.training import Changes
from bench.gpu.workspace import Workspace

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
    ahead = second["time"] - first["time"]  # at most so much work was still queued on the device
    return Result(first_step_s=first["time"] - began + ahead, found=f"resumed after step {steps_before}")
