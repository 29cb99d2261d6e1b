"""Ranks on GPUs that stop making progress anywhere, and slow ones that are no hang: what `fsdpctl` finds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

from bench.gpu.launched import LaunchedRun, fsdpctl, require
from bench.gpu.result import Result
from bench.gpu.workspace import Workspace
from tests.backends.hangs import JOB, ROWS, ROWS_ALONE, Row, check_findings, list_misses, write_faults

FOUND_S = 10 + 5
"""The default of `hang.after`, and what confirming it and asking for stacks may take."""


def everywhere(workspace: Workspace, nodes: int, procs_per_node: int, mode: str) -> Result:
    """Stop one of two ranks, or the only one, in each place: each must be found in time and named.

    Two runs, each with half of the places, are under way at once: most of their time they wait.
    """
    rows = ROWS if workspace.gpus(nodes * procs_per_node) > 1 else ROWS_ALONE
    halves = [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    (workspace.root / "hangs.yaml").write_text(JOB)
    changed = [f"procs_per_node={procs_per_node}", f"trainer.checkpoint.mode={mode}"]
    with ExitStack() as stack:
        runs = [stack.enter_context(_submit(workspace, half, nodes, changed)) for half in halves]
        states = [run.wait_end() for run in runs]
        found = [
            one
            for run, half in zip(runs, halves, strict=True)
            for one in check_findings(run.paths, half, procs_per_node)
        ]
    misses = list_misses(found, FOUND_S)
    times = ", ".join(f"{one.row.place} {one.row.kind} {one.seconds:.1f}" for one in found)
    require(set(states) == {"SUCCEEDED"} and not misses, f"{states}; {times}; {misses}")
    return Result(found=f"{len(found)} of {len(found)} named; seconds: {times}")


@contextmanager
def _submit(workspace: Workspace, rows: list[Row], nodes: int, changed: list[str]) -> Iterator[LaunchedRun]:
    faults = workspace.root / f"faults-{rows[0].place}-{rows[0].kind}"
    write_faults(faults, rows)
    path = os.pathsep.join([str(faults), os.environ.get("PYTHONPATH", "")])
    with ExitStack() as stack:
        with patch.dict(os.environ, PYTHONPATH=path):
            run = stack.enter_context(LaunchedRun.submit(workspace, str(workspace.root / "hangs.yaml"), nodes, changed))
        yield run


def cold_compile(workspace: Workspace, job: str, gpus: int) -> Result:
    """Train with an empty compiler cache, evaluations and saves: nothing of it may be taken for a hang."""
    steps, every = (12, 6) if workspace.tiny else (60, 20)
    changed = [
        *(f"trainer.steps={steps}", "trainer.optim.warmup_steps=5", f"trainer.eval.every_steps={every}"),
        *(f"trainer.checkpoint.every_steps={every}", f"procs_per_node={workspace.gpus(gpus)}"),
    ]
    with (
        patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=str(workspace.root / "cold")),
        LaunchedRun.submit(workspace, "llm-tiny" if workspace.tiny else job, 1, changed) as launched,
    ):
        state = launched.wait_end()
        attempt = launched.status()["attempt"]
        reason = fsdpctl(workspace, "logs", launched.run_id, "--errors", "--attempt", "1")
    require((state, attempt) == ("SUCCEEDED", 1), f"{state} in attempt {attempt}: {reason[-800:]}")
    return Result(found=f"{state} in one attempt, {len(launched.metrics())} steps")
