"""What the steps of a run show: medians, and how long saves hold them up. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from statistics import median

from fsdpctl.contract.events import Event, EventKind
from fsdpctl.curves.read import EveryStep
from fsdpctl.curves.series import Curve
from fsdpctl.run_report.facts import SlowRank, Steps

MIN_SAVES = 2
"""Before the stall of a save is a median of something."""


def summarize(run: EveryStep, last_line: Mapping[str, object]) -> Steps | None:
    """Return what the steps show; None before the first one. `last_line` is the newest of the metrics."""
    curves = {curve.key: curve for curve in run.curves}
    steps = run.times.steps or max((curve.steps for curve in run.curves), key=len, default=())
    if not steps:
        return None
    loss = curves.get("loss")
    durations = step_seconds(run.times, run.starts)
    saves = {event.step for event in run.events if event.kind is EventKind.SAVED and event.step is not None}
    tokens, skipped = last_line.get("tokens"), last_line.get("skipped")
    return Steps(
        count=len(steps),
        first=steps[0],
        last=steps[-1],
        step_s=median(durations.values()) if durations else None,
        tokens_per_s=_median(curves.get("tokens_per_s")),
        mfu=_median(curves.get("mfu")),
        first_loss=loss.values[0] if loss else None,
        last_loss=loss.values[-1] if loss else None,
        lowest_loss=min(loss.values) if loss else None,
        num_saves=len(saves),
        save_stall_s=measure_save_stall(durations, saves),
        tokens=tokens if isinstance(tokens, int) else None,
        skipped=skipped if isinstance(skipped, int) else 0,
    )


def step_seconds(times: Curve, starts: Mapping[int, int]) -> dict[int, float]:
    """Return step -> its duration, without the first of each attempt."""
    firsts = set(starts.values())
    lines = pairwise(zip(times.steps, times.values, strict=True))
    return {
        step: time - earlier
        for (before, earlier), (step, time) in lines
        if step == before + 1 and step not in firsts and time >= earlier
    }


def measure_save_stall(durations: Mapping[int, float], saves: Iterable[int]) -> float | None:
    """Return by how many seconds a save makes its step and the next one longer than others: the median of all saves."""
    if not durations:
        return None
    usual = median(durations.values())
    longer = [
        durations[step] + durations[step + 1] - 2 * usual
        for step in saves
        if step in durations and step + 1 in durations
    ]
    return max(0.0, median(longer)) if len(longer) >= MIN_SAVES else None


def count_slow_ranks(events: Iterable[Event]) -> tuple[SlowRank, ...]:
    """Return the ranks that the others have waited for, the one that became slow most often first."""
    hosts: dict[int, str | None] = {}
    counts: dict[int, int] = {}
    for event in events:
        if event.kind is EventKind.SLOW_RANK and event.rank is not None:
            hosts[event.rank] = event.host
            counts[event.rank] = counts.get(event.rank, 0) + 1
    ranks = sorted(counts, key=lambda rank: (-counts[rank], rank))
    return tuple(SlowRank(rank, hosts[rank], counts[rank]) for rank in ranks)


def _median(curve: Curve | None) -> float | None:
    return median(curve.values) if curve is not None else None
