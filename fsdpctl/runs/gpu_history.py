"""What the GPUs of a run did, over all nodes and attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from fsdpctl.contract.gpu_history import EVERY_S, GpuMoment, read_moments
from fsdpctl.contract.paths import RunPaths

_GAP_S = 3 * EVERY_S
"""After a longer time without a sample, nothing is known of it."""

NodeHistory = Mapping[int, Sequence[GpuMoment]]
"""Node rank -> its moments, by time."""


@dataclass(frozen=True)
class GpuUse:
    """One GPU over the whole run; null where it was not reported."""

    node: int  # node rank
    gpu: int  # in the order of the node's report
    busy: float | None  # mean of all samples
    power_w: float | None  # mean of all samples
    memory_peak: int | None  # bytes, the highest sample


def read_gpu_history(run: RunPaths) -> dict[int, list[GpuMoment]]:
    """Return the moments of each node, of all attempts; empty where there are no GPUs."""
    found: dict[int, list[GpuMoment]] = {}
    for attempt in run.attempts():
        for node in attempt.nodes():
            if moments := list(read_moments(node.gpu_history)):
                found.setdefault(node.node_rank, []).extend(moments)
    return found


def summarize_gpus(history: NodeHistory) -> tuple[GpuUse, ...]:
    """Return what each GPU did, by node and GPU."""
    return tuple(
        GpuUse(
            node,
            gpu,
            busy=_mean(moment.busy[gpu] for moment in moments if gpu < len(moment.busy)),
            power_w=_mean(moment.power_w[gpu] for moment in moments if gpu < len(moment.power_w)),
            memory_peak=max(
                (used for moment in moments for used in moment.memory_used[gpu : gpu + 1] if used is not None),
                default=None,
            ),
        )
        for node, moments in sorted(history.items())
        for gpu in range(max(len(moment.busy) for moment in moments))
    )


def measure_energy(history: NodeHistory) -> float | None:
    """Return the energy of all GPUs in kilowatt-hours, from samples of their power; None where it is not reported."""
    joules, is_known = 0.0, False
    for moments in history.values():
        for before, after in pairwise(moments):
            seconds = after.time - before.time
            power = [watts for watts in before.power_w if watts is not None]
            if power and 0 < seconds <= _GAP_S:
                joules, is_known = joules + sum(power) * seconds, True
    return joules / 3.6e6 if is_known else None


def totals(history: NodeHistory) -> list[tuple[float, float | None, int | None]]:
    """Return time, power of all GPUs in watts and memory of the fullest in bytes, for each span of `EVERY_S`."""
    spans: dict[int, dict[int, GpuMoment]] = {}
    for node, moments in history.items():
        for moment in moments:
            spans.setdefault(int(moment.time // EVERY_S), {})[node] = moment
    found = []
    for _, nodes in sorted(spans.items()):
        power = [watts for moment in nodes.values() for watts in moment.power_w if watts is not None]
        memory = [used for moment in nodes.values() for used in moment.memory_used if used is not None]
        is_whole = len(nodes) == len(history)  # else a node without a sample would look like less power
        time = max(moment.time for moment in nodes.values())
        found.append((time, sum(power) if power and is_whole else None, max(memory, default=None)))
    return found


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None
