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

AttemptHistory = Mapping[int, Sequence[GpuMoment]]
"""Node rank -> its moments in one attempt, by time; only nodes that have any."""


@dataclass(frozen=True)
class GpuUse:
    """One GPU over the whole run; null where it was not reported."""

    node: int  # node rank
    gpu: int  # in the order of the node's report
    busy: float | None  # mean of all samples
    power_w: float | None  # mean of all samples
    memory_peak: int | None  # bytes, the highest sample


def read_gpu_history(run: RunPaths) -> list[AttemptHistory]:
    """Return the moments of each attempt that has any; empty where there are no GPUs."""
    read = ({node.node_rank: tuple(read_moments(node.gpu_history)) for node in one.nodes()} for one in run.attempts())
    known = ({node: moments for node, moments in history.items() if moments} for history in read)
    return [history for history in known if history]


def summarize_gpus(histories: Sequence[AttemptHistory]) -> tuple[GpuUse, ...]:
    """Return what each GPU did over all attempts, by node and GPU."""
    found: dict[int, list[GpuMoment]] = {}
    for history in histories:
        for node, moments in history.items():
            found.setdefault(node, []).extend(moments)
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
        for node, moments in sorted(found.items())
        for gpu in range(max(len(moment.busy) for moment in moments))
    )


def measure_energy(histories: Sequence[AttemptHistory]) -> float | None:
    """Return the energy of all GPUs in kilowatt-hours, from samples of their power; None where it is not reported."""
    joules, is_known = 0.0, False
    for moments in (moments for history in histories for moments in history.values()):
        for before, after in pairwise(moments):
            seconds = after.time - before.time
            power = [watts for watts in before.power_w if watts is not None]
            if power and 0 < seconds <= _GAP_S:
                joules, is_known = joules + sum(power) * seconds, True
    return joules / 3.6e6 if is_known else None


def totals(history: AttemptHistory) -> list[tuple[float, float | None, int | None]]:
    """Return time, power of all GPUs in watts and memory of the fullest in bytes, for each span of `EVERY_S` of an
    attempt."""
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
