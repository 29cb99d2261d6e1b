"""Rows that train: with the bundled trainer, and with torchtitan on the same shape and the same kind of tokens."""

from __future__ import annotations

import json
import math
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from bench.gpu.process import run, torchrun
from bench.gpu.result import Result
from bench.gpu.workspace import Workspace

Changes = Mapping[str, Any]
Mesh = tuple[int, int]  # copies of the model, ranks that share one
ALONE: Mesh = (1, 1)
SYNTHETIC: Changes = {"data.source": "synthetic"}
STEPS_ONLY = ("-m", "bench.gpu.steps")
TIMELINE = ("-m", "bench.gpu.timeline")
LAST_LOSSES = 50
WHOLE = ("-m", "train")


def steps(workspace: Workspace, job: str, gpus: int, num_steps: int, changed: Changes) -> Result:
    """Measure the trainer's steps, without the save and the evaluation at its end."""
    return _train(workspace, job, gpus, num_steps, changed, STEPS_ONLY)


def saves(workspace: Workspace, job: str, gpus: int, num_steps: int, every: int, changed: Changes) -> Result:
    """Measure steps with saves beside them, in a whole run."""
    every = every if not workspace.tiny else 3
    return _train(workspace, job, gpus, num_steps, {**changed, "checkpoint.every_steps": every}, WHOLE)


def saves_then_resumed(
    workspace: Workspace, job: str, gpus: int, num_steps: int, every: int, changed: Changes
) -> Result:
    """Measure the same, and then a start from the last checkpoint, with a warm cache of the compiler."""
    num_steps = num_steps if not workspace.tiny else 8
    result = saves(workspace, job, gpus, num_steps, every, changed)
    again = saves(workspace, job, gpus, num_steps + 10, every, changed)
    return replace(result, first_step_s=again.first_step_s)


def start(workspace: Workspace, job: str, changed: Changes) -> Result:
    """Measure the parts of a start from a checkpoint, with a warm cache of the compiler."""
    config = workspace.config(job, workspace.gpus(1), 10, changed)
    run(
        torchrun(1, *WHOLE, "--config", str(workspace.write(config))),
        workspace.root / "log",
        workspace.limit_s,
        workspace.env,
    )
    path = workspace.write({**config, "steps": 20})
    env = {**workspace.env, "BENCH_BEGAN": str(time.time())}
    log = run(torchrun(1, *TIMELINE, "--config", str(path)), workspace.root / "log-again", workspace.limit_s, env)
    ends = [json.loads(line) for line in re.findall(r"TIMELINE (\[.*\])", log)]
    parts = [
        f"{part} {at_s - before_s:.1f} s" for (part, at_s), (_, before_s) in zip(ends, [["", 0.0], *ends], strict=False)
    ]
    return Result(first_step_s=ends[-1][1], found="; ".join(parts))


def peer(workspace: Workspace, job: str, mesh: Mesh, num_steps: int, changed: Changes) -> Result:
    """Measure torchtitan's steps."""
    path = workspace.write(config := workspace.config(job, workspace.gpus(math.prod(mesh)), num_steps, changed))
    return _peer_result(config, *_run_peer(workspace, path, mesh))


def megatron(workspace: Workspace, job: str, gpus: int, num_steps: int, changed: Changes) -> Result:
    """Measure the steps of Megatron-FSDP, which shards all that it can over all GPUs."""
    gpus = workspace.gpus(gpus)
    path = workspace.write(config := workspace.config(job, gpus, num_steps, changed))
    began = time.time()
    argv = torchrun(gpus, "-m", "bench.gpu.megatron_peer", str(path))
    return _peer_result(config, began, run(argv, workspace.root / f"log-{began}", workspace.limit_s, workspace.env))


def peer_resumed(workspace: Workspace, job: str, changed: Changes) -> Result:
    """Measure torchtitan's start from a checkpoint, with a warm cache of the compiler."""
    path = workspace.write(config := workspace.config(job, workspace.gpus(1), 10, changed))
    folder = ("--checkpoints", str(workspace.root / "out"))
    _run_peer(workspace, path, ALONE, *folder)
    config["steps"] += 10
    workspace.write(config)
    return _peer_result(config, *_run_peer(workspace, path, ALONE, *folder))


def _train(
    workspace: Workspace, job: str, gpus: int, num_steps: int, changed: Changes, entry: tuple[str, str]
) -> Result:
    gpus = workspace.gpus(gpus)
    path = workspace.write(config := workspace.config(job, gpus, num_steps, changed))
    began = time.time()
    argv = torchrun(gpus, *entry, "--config", str(path))
    log = run(argv, workspace.root / "log", workspace.limit_s, workspace.env)
    return _our_result(config, gpus, began, workspace.root, log)


def _our_result(config: dict[str, Any], gpus: int, began: float, root: Path, log: str) -> Result:
    """Compute the row from the metrics of a run.

    A step's time is the device's own, from the end of the step before, or from where a save has left the queue. So the
    stall of a save appears in two places: in the step after it, and in the rest of the host's clock.
    """
    lines = [line for line in read_metrics(root) if line["time"] > began]
    tokens = config["batch"]["sequences"] * config["model"]["seq_len"]
    took = {line["step"]: tokens / line["tokens_per_s"] for line in lines}
    settled = lines[len(lines) // 3 :]
    every = config["checkpoint"]["every_steps"]
    after_saves = [line["step"] for line in settled[1:] if (line["step"] - 1) % every == 0]
    by_host = settled[-1]["time"] - settled[0]["time"]
    between = max(0.0, by_host - sum(took[line["step"]] for line in settled[1:]))
    for step in after_saves:
        took[step] += between / len(after_saves)
    times = sorted(took[line["step"]] for line in settled)
    middle = statistics.median(times)
    stalls = [took[step] - middle for step in after_saves]
    ahead = middle if torch.cuda.is_available() else 0.0  # at most so much work was still queued on the device
    return Result(
        tokens_per_s_gpu=tokens / gpus / middle,
        step_ms=1000 * middle,
        p99_over_p50=times[int(0.99 * (len(times) - 1))] / middle,
        stall_ms=1000 * statistics.mean(stalls) if stalls else None,
        save_s=longest_save(log),
        peak_gib=float(re.findall(r"peak memory ([\d.]+) GiB", log)[-1]),
        first_step_s=lines[0]["time"] - began + ahead,
        losses=tuple(math.nan if line["loss"] is None else line["loss"] for line in lines),
        sequences=config["batch"]["sequences"],
        found=_notes(settled, log),
    )


def _notes(settled: Sequence[Mapping[str, Any]], log: str) -> str:
    shares = [line["mfu"] for line in settled if line.get("mfu") is not None]
    mfu = [f"MFU {statistics.median(shares):.1%}"] if shares else []
    curve = []
    if len(settled) > 4 * LAST_LOSSES:
        mean = statistics.mean(line["loss"] for line in settled[-LAST_LOSSES:])
        curve = [f"mean loss of the last {LAST_LOSSES} steps {mean:.4f}"]
    return "; ".join([*mfu, *curve, *(["the compiler gave up on a part"] if "WON'T CONVERT" in log else [])])


def longest_save(log: str) -> float | None:
    return max(map(float, re.findall(r"saved \S+ in ([\d.]+) s", log)), default=None)


def _run_peer(workspace: Workspace, path: Path, mesh: Mesh, *more: str) -> tuple[float, str]:
    began, (replicate, shard) = time.time(), mesh
    degrees = ("--replicate", str(replicate), "--shard", str(shard))
    argv = torchrun(replicate * shard, "-m", "bench.gpu.torchtitan_peer", str(path), *degrees, *more)
    return began, run(argv, workspace.root / f"log-{began}", workspace.limit_s, workspace.env)


def _peer_result(config: dict[str, Any], began: float, log: str) -> Result:
    found = json.loads(log.rpartition("RESULT ")[2].splitlines()[0])
    ended = found["ended"]
    settled = ended[len(ended) // 3 :]
    times = sorted(b - a for a, b in pairwise(settled))
    middle = statistics.median(times)
    return Result(
        tokens_per_s_gpu=config["batch"]["micro_batch"] * config["model"]["seq_len"] / middle,
        step_ms=1000 * middle,
        p99_over_p50=times[int(0.99 * (len(times) - 1))] / middle,
        peak_gib=found["peak_gib"],
        first_step_s=ended[0] - began,
        found=f"{found['parameters']:,} parameters",
    )


def read_metrics(root: Path) -> list[dict[str, Any]]:
    path = root / "metrics.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]
