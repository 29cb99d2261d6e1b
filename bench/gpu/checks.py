"""Rows that prove something on GPUs rather than time it: through `fsdpctl`, as a user would see it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import torch

from bench.gpu.launched import LaunchedRun, fsdpctl, require
from bench.gpu.process import run
from bench.gpu.result import Result
from bench.gpu.workspace import Workspace

OF_GPUS = ("torch", "cuda", "nccl", "driver", "gpus", "gpu_health", "gpu_clocks", "gpu_processes")


def doctor(workspace: Workspace) -> Result:
    """Return the findings of `fsdpctl doctor` on this machine's GPUs."""
    [node] = json.loads(fsdpctl(workspace, "doctor", "--json"))["nodes"]
    findings = [one for one in node["findings"] if one["check"] in OF_GPUS]
    return Result(found="; ".join(f"{one['check']} {one['result']}: {one['reason']}" for one in findings))


def debug(workspace: Workspace, level: str) -> Result:
    """Run at this debug level: return its state, and how much NCCL logged."""
    with LaunchedRun.submit(workspace, _small(workspace), 2, ["trainer.steps=40"], "--debug", level) as launched:
        state = launched.wait_end()
        logs = [path.read_text(errors="replace") for path in launched.paths.root.glob("attempts/*/node-*/nccl-*.log")]
    require(
        state == "SUCCEEDED" and (bool(logs) or not torch.cuda.is_available()), f"{state}, {len(logs)} logs of NCCL"
    )
    return Result(found=f"{state}, {len(logs)} logs of NCCL with {sum(log.count(chr(10)) for log in logs)} lines")


def minimal(workspace: Workspace) -> Result:
    """Run examples/minimal on two nodes, stop it in mid-run and resume it."""
    with LaunchedRun.submit(workspace, "job.yaml", 2, [], cwd=Path("examples/minimal")) as launched:
        launched.wait_steps(150)
        fsdpctl(workspace, "stop", launched.run_id)
        stopped_after = len(launched.metrics())
        fsdpctl(workspace, "resume", launched.run_id)
        state = launched.wait_end()
        steps = [line["step"] for line in launched.metrics()]
    require(state == "SUCCEEDED" and steps == list(range(1, 2001)), f"{state} after {len(steps)} steps")
    return Result(found=f"{state}, {len(steps)} steps without gap or repeat, stopped after {stopped_after}")


def memory(workspace: Workspace) -> Result:
    """Write snapshots of GPU memory: one on request in mid-run, one where it runs out."""
    require(torch.cuda.is_available(), "needs a GPU")
    keep = ["restarts=0", "trainer.profile.memory=true"]
    with LaunchedRun.submit(
        workspace, _small(workspace), 1, [*keep, "trainer.steps=5000", "trainer.log_every=5"]
    ) as launched:
        launched.wait_steps(10)
        launched.paths.attempt(1).memory_snapshot_request.touch()
        requested = launched.wait_files("profiles/*-memory-*.pickle")
    batch = [f"trainer.batch.sequences={8192 * torch.cuda.device_count()}"]
    too_large = [*keep, *batch, "trainer.batch.micro_batch=8192"]
    with LaunchedRun.submit(workspace, _small(workspace), 1, too_large, "--force") as launched:
        state = launched.wait_end()
        ran_out = list(launched.paths.root.glob("profiles/*-out-of-memory.pickle"))
        reason = launched.status()["reason"]
    require(state == "FAILED" and bool(ran_out), f"{state}, {len(ran_out)} snapshots: {reason}")
    return Result(found=f"{len(requested)} on request; {len(ran_out)} where it ran out: {reason}")


def on_gpu(workspace: Workspace, test: str) -> Result:
    """Run a file of tests that need a GPU."""
    argv = [sys.executable, "-m", "pytest", "-q", "-c", os.devnull, "--rootdir", ".", test]
    output = run(argv, workspace.root / "log", workspace.limit_s, {"FSDPCTL_REQUIRE": "cuda"})
    return Result(found=output.strip().splitlines()[-1])


def _small(workspace: Workspace) -> str:
    return "llm-tiny" if workspace.tiny else "llm-tiny-gpu"
