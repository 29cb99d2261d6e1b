"""The sentences of a scaling benchmark: how far each strategy is from linear, and where the gap is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fsdpctl.scaling.result import Loss, ScalingPoint

_LEAST = 0.005
"""A part of the loss that is mentioned."""


def summarize(points: Sequence[ScalingPoint]) -> tuple[str, ...]:
    """Return a sentence on the largest measured number of GPUs of each strategy."""
    return tuple(_sentences(points))


def _sentences(points: Sequence[ScalingPoint]) -> Iterator[str]:
    for strategy in dict.fromkeys(point.strategy for point in points if point.strategy is not None):
        alike = [point for point in points if point.strategy in (None, strategy) and point.measured is not None]
        if len({point.gpus for point in alike}) > 1:
            first, last = min(alike, key=_gpus), max(alike, key=_gpus)
            yield _describe(strategy, first, last)


def _gpus(point: ScalingPoint) -> int:
    return point.gpus


def _describe(strategy: str, first: ScalingPoint, last: ScalingPoint) -> str:
    assert last.efficiency is not None
    start = f"{strategy}: on {last.gpus} GPUs a GPU has {last.efficiency:.0%} of the speed that it has on {first.gpus}"
    if last.efficiency > 1 - _LEAST:
        return f"{start}: nothing is lost"
    if last.lost is None:
        return f"{start}; without a trace it is not known where the rest is"
    return f"{start}; {_describe_loss(last.lost)}"


def _describe_loss(lost: Loss) -> str:
    parts = {
        "communication that no compute hides": lost.communication,
        "slower compute": lost.compute,
        "time in which nothing runs": lost.idle,
    }
    largest = sorted(parts.items(), key=lambda part: -part[1])
    return "lost to " + ", ".join(f"{name} ({part:.0%})" for name, part in largest if part >= _LEAST)
