"""The time of a step by group of kernels, from the trainer's own trace of a few steps."""

from __future__ import annotations

import gzip
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.gpu.process import run, torchrun
from bench.gpu.result import Result
from bench.gpu.training import STEPS_ONLY, Changes
from bench.gpu.workspace import Workspace

FIRST, STEPS = 8, 3
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
GROUPS = {  # the first whose pattern a kernel's name has
    "NCCL": "nccl",
    "attention": "flash|fmha|sdpa|attention|cudnn::fusion",
    "optimizer": "FusedAdam",
    "norm and scaling of gradients": "multi_tensor_apply|lpnorm",
    "matrix products": "gemm|nvjet|cutlass|xmma|triton_tem",
    "compiled, with sums": "triton_(red|per|mix)",
    "compiled, element by element": "triton_poi",
    "copies": "memcpy|memset",
    "others": "",
}


@dataclass(frozen=True)
class Kernel:
    name: str
    begin_us: float
    took_us: float


def time_per_kernel_group(workspace: Workspace, job: str, gpus: int, changed: Changes) -> Result:
    """Return the milliseconds of a step by kind of kernel, and the longest kernels."""
    gpus = workspace.gpus(gpus)
    traced = {**changed, "profile.first_step": FIRST, "profile.steps": STEPS}
    path = workspace.write(workspace.config(job, gpus, FIRST + STEPS + 1, traced))
    run(torchrun(gpus, *STEPS_ONLY, "--config", str(path)), workspace.root / "log", workspace.limit_s, workspace.env)
    [trace] = workspace.root.glob("profiles/rank-0-*.json.gz")
    kernels = read_kernels(trace)
    found = "; ".join(f"{group} {milliseconds:.1f} ms" for group, milliseconds in by_group(kernels).items())
    return Result(found=found, details=longest_kernels(kernels))


def read_kernels(trace: Path) -> list[Kernel]:
    """Return the work of the device in a trace."""
    with gzip.open(trace, "rt") as file:
        events: Iterable[Mapping[str, Any]] = json.load(file)["traceEvents"]
    return [Kernel(event["name"], event["ts"], event["dur"]) for event in events if event.get("cat") in DEVICE]


def by_group(kernels: Iterable[Kernel]) -> dict[str, float]:
    """Return milliseconds of one step, the most first; `idle` is when the device did nothing between two kernels."""
    spans = sorted(kernels, key=lambda kernel: kernel.begin_us)
    took: Counter[str] = Counter()
    reached = spans[0].begin_us if spans else 0.0
    for kernel in spans:
        group = next(group for group, pattern in GROUPS.items() if re.search(pattern, kernel.name, re.IGNORECASE))
        took[group] += kernel.took_us
        took["idle"] += max(0.0, kernel.begin_us - reached)
        reached = max(reached, kernel.begin_us + kernel.took_us)
    return {group: microseconds / 1000 / STEPS for group, microseconds in took.most_common()}


def longest_kernels(kernels: Iterable[Kernel], most: int = 45) -> tuple[str, ...]:
    """Return milliseconds and calls in one step, by kernel."""
    took, times = Counter[str](), Counter[str]()
    for kernel in kernels:
        took[kernel.name] += kernel.took_us
        times[kernel.name] += 1
    return tuple(
        f"{took_us / 1000 / STEPS:.2f} ms in {times[name] / STEPS:g}: {name[:110]}"
        for name, took_us in took.most_common(most)
    )
