"""The table of a scaling benchmark, as proposals for computing time ask for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from fsdpctl.contract.clock import MINUTE, format_time
from fsdpctl.run_report.document import Block, Paragraph, Table
from fsdpctl.scaling.result import Scaling, ScalingPoint, unit


def scaling_blocks(result: Scaling) -> Iterator[Block]:
    """Yield the table with what it is of, and a sentence on each strategy."""
    counted = unit(result.device)
    when = f", {format_time(result.ended, MINUTE)}" if result.ended else ""
    kept = "micro-batch of each " + counted if result.scaling == "weak" else "global batch"
    yield Paragraph(
        f"{result.scaling.capitalize()} scaling of {result.job} on {result.profile}{when}: the {kept} stays the same,"
        f" medians of {result.steps} steps; efficiency is the speed of a {counted}, of that of the smallest number of"
        f" {counted}s."
    )
    header = (f"{counted}s", "nodes", "strategy", "batch", "tokens/s", f"tokens/s per {counted}", "efficiency", "MFU")
    rows = tuple(_row(point) for point in sorted(result.points, key=_order) if point.measured is not None)
    yield Table(header, rows, numbers=(0, 1, 3, 4, 5, 6, 7))
    if missing := [f"{point.gpus} {counted}s ({point.strategy})" for point in result.points if point.measured is None]:
        yield Paragraph(f"Not measured: {', '.join(missing)}.")
    yield from map(Paragraph, result.summary)


def _order(point: ScalingPoint) -> tuple[str, int]:
    return point.strategy or "", point.gpus


def _row(point: ScalingPoint) -> tuple[str, ...]:
    found = point.measured
    assert found is not None
    return (
        f"{point.gpus:,}",
        f"{point.nodes:,}",
        point.strategy or "-",
        f"{point.micro_batch * point.accumulation * point.gpus:,}",
        f"{found.tokens_per_s:,.0f}",
        f"{found.tokens_per_s_gpu:,.0f}",
        f"{point.efficiency:.0%}" if point.efficiency is not None else "-",
        f"{found.mfu:.1%}" if found.mfu is not None else "-",
    )
