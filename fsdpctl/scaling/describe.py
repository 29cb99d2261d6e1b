"""The sentences of a scaling benchmark: how far each strategy is from linear, and where the gap is. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fsdpctl.scaling.result import Loss, ScalingPoint

_LEAST = 0.005
"""A part of the loss that is mentioned."""
_SUSPICIOUS = 1.05
"""An efficiency above which the smallest number of GPUs was disturbed: more GPUs do not make each of them faster."""


def summarize(points: Sequence[ScalingPoint], unit: str) -> tuple[str, ...]:
    """Return a sentence on the largest measured number of GPUs of each strategy; `unit`: GPU or rank."""
    return tuple(_sentences(points, unit))


def _sentences(points: Sequence[ScalingPoint], unit: str) -> Iterator[str]:
    for strategy in dict.fromkeys(point.strategy for point in points if point.strategy is not None):
        alike = [point for point in points if point.strategy in (None, strategy) and point.measured is not None]
        if len({point.gpus for point in alike}) > 1:
            first, last = min(alike, key=_gpus), max(alike, key=_gpus)
            yield f"{strategy}: {_describe(first, last, unit)}"


def _gpus(point: ScalingPoint) -> int:
    return point.gpus


def _describe(first: ScalingPoint, last: ScalingPoint, unit: str) -> str:
    assert last.efficiency is not None
    of = f"alone, without {last.strategy}" if first.strategy is None else f"among {first.gpus}"
    speed = f"{last.efficiency:.0%} of the speed of one {of}{_describe_expected(first, last)}"
    start = f"each of {last.gpus} {unit}s has {speed}"
    if last.efficiency > _SUSPICIOUS:
        return f"{start}: {_describe_base(first)}"
    if last.efficiency > 1 - _LEAST:
        return f"{start}: nothing is lost"
    if last.lost is None:
        return f"{start}; where the rest is lost is not known, as there is no trace"
    return f"{start}; {_describe_loss(last.lost)}"


def _describe_expected(first: ScalingPoint, last: ScalingPoint) -> str:
    if first.expected is None or last.expected is None:
        return ""
    return f" (expected: {last.expected.tokens_per_s_gpu / first.expected.tokens_per_s_gpu:.0%})"


def _describe_base(first: ScalingPoint) -> str:
    return (
        f"more than linear, so the run on {first.gpus} was slower than it should be, on hardware that is busy,"
        " throttled or short of memory, and the efficiencies do not count; repeat it alone"
    )


def _describe_loss(lost: Loss) -> str:
    parts = {
        "communication that no compute hides": lost.communication,
        "slower compute": lost.compute,
        "time in which nothing runs": lost.idle,
    }
    largest = sorted(parts.items(), key=lambda part: -part[1])
    return "lost to " + ", ".join(f"{name} ({part:.0%})" for name, part in largest if part >= _LEAST)
