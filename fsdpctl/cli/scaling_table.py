"""The table of `fsdpctl bench scaling`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fsdpctl.cli.output import print_beside, print_table

if TYPE_CHECKING:
    from fsdpctl.scaling.result import Scaling, ScalingPoint

_UNKNOWN = "-"


def print_scaling(result: Scaling) -> None:
    """Print a row for each point, and below them where the gap is."""
    from fsdpctl.scaling.result import unit

    counted = unit(result.device).upper()
    header = [f"{counted}S", "STRATEGY", "TOKENS/S", f"A {counted}"]
    header += ["EFFICIENCY", "PEAK GIB", "COMM", "EXPOSED"]
    has_problem = any(point.problem for point in result.points)
    print_table(
        [*header, *(["PROBLEM"] if has_problem else [])],
        [[*_cells(point), *([_problem(point)] if has_problem else [])] for point in result.points],
    )
    for sentence in result.summary:
        print_beside("", sentence)


def _cells(point: ScalingPoint) -> list[str]:
    start = [str(point.gpus), point.strategy or _UNKNOWN]
    if (found := point.measured) is None:
        return [*start, *[_UNKNOWN] * 6]
    return [
        *start,
        f"{found.tokens_per_s:,.0f}",
        f"{found.tokens_per_s_gpu:,.0f}",
        _percent(point.efficiency),
        f"{found.peak_memory_gib:.1f}" if found.peak_memory_gib is not None else _UNKNOWN,
        _percent(found.communication_share),
        _percent(found.exposed_communication_share),
    ]


def _percent(share: float | None) -> str:
    return f"{share:.0%}" if share is not None else _UNKNOWN


def _problem(point: ScalingPoint) -> str:
    kind = point.category or (point.state if point.run_id else None)
    return f"{kind}: {point.problem}" if kind and point.problem else point.problem
