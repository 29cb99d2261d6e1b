"""Curves of what agents have recorded of GPUs, over the steps of the run."""

from __future__ import annotations

from bisect import bisect_right
from itertools import chain
from operator import itemgetter

from fsdpctl.contract.paths import RunPaths
from fsdpctl.curves.series import Curve
from fsdpctl.runs.gpu_history import read_gpu_history, totals

MEMORY, POWER = GPU_KEYS = ("gpu_memory_gib", "gpu_power_w")


def has_gpu_history(run: RunPaths) -> bool:
    """Return whether an agent has recorded GPUs."""
    return any(node.gpu_history.exists() for attempt in run.attempts() for node in attempt.nodes())


def read_gpu_curves(run: RunPaths, times: Curve) -> list[Curve]:
    """Return memory and power at each step after which they were recorded; `times` is when the steps ended."""
    memory: list[tuple[int, float]] = []
    power: list[tuple[int, float]] = []
    found = chain.from_iterable(map(totals, read_gpu_history(run)))
    for time, watts, used in sorted(found, key=itemgetter(0)):  # clocks of hosts differ
        if not (after := bisect_right(times.values, time)):
            continue  # before the first step
        step = times.steps[after - 1]
        if used is not None:
            memory.append((step, used / 2**30))
        if watts is not None:
            power.append((step, watts))
    return [
        Curve(key, tuple(step for step, _ in points), tuple(value for _, value in points))
        for key, points in ((MEMORY, memory), (POWER, power))
    ]
