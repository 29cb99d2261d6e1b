"""The table of `fsdpctl bench scaling`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fsdpctl.cli.output import print_beside, print_table

if TYPE_CHECKING:
    from fsdpctl.scaling.result import Scaling, ScalingPoint

_UNKNOWN = "-"

Column = tuple[str, Callable[["ScalingPoint"], str]]


def print_scaling(result: Scaling) -> None:
    """Print a row for each point, and below them where the gap is."""
    columns = _columns(result)
    print_table([name for name, _ in columns], [[cell(point) for _, cell in columns] for point in result.points])
    for sentence in result.summary:
        print_beside("", sentence)


def _columns(result: Scaling) -> list[Column]:
    """Return the columns; those of expected values and problems only where there are any."""
    from fsdpctl.scaling.result import unit

    counted = unit(result.device).upper()
    is_expected = any(point.expected for point in result.points)
    speed: Column = ("EXPECTED", lambda point: _number(point.expected.tokens_per_s_gpu if point.expected else None, 0))
    memory: Column = ("EXPECTED", lambda point: _number(point.expected.peak_memory_gib if point.expected else None, 1))
    problem: Column = ("PROBLEM", _problem)
    return [
        (f"{counted}S", lambda point: str(point.gpus)),
        ("STRATEGY", lambda point: point.strategy or _UNKNOWN),
        ("TOKENS/S", lambda point: _number(point.measured.tokens_per_s if point.measured else None, 0)),
        (f"A {counted}", lambda point: _number(point.measured.tokens_per_s_gpu if point.measured else None, 0)),
        *([speed] if is_expected else []),
        ("EFFICIENCY", lambda point: _percent(point.efficiency)),
        ("PEAK GIB", lambda point: _number(point.measured.peak_memory_gib if point.measured else None, 1)),
        *([memory] if is_expected else []),
        ("COMM", lambda point: _percent(point.measured.communication_share if point.measured else None)),
        ("EXPOSED", lambda point: _percent(point.measured.exposed_communication_share if point.measured else None)),
        *([problem] if any(point.problem for point in result.points) else []),
    ]


def _number(value: float | None, digits: int) -> str:
    return f"{value:,.{digits}f}" if value is not None else _UNKNOWN


def _percent(share: float | None) -> str:
    return f"{share:.0%}" if share is not None else _UNKNOWN


def _problem(point: ScalingPoint) -> str:
    kind = point.category or (point.state if point.run_id else None)
    return f"{kind}: {point.problem}" if kind and point.problem else point.problem
