"""Thin a long curve: its minima and maxima stay, and a reader cannot see the difference."""

from __future__ import annotations

from fsdpctl.curves.series import Curve

BUCKETS = 400
"""More than a terminal or a picture has columns for. Each leaves at most four points."""


def thin(curve: Curve, buckets: int = BUCKETS) -> Curve:
    """Return the curve with the first, the lowest, the highest and the last point of each of so many parts."""
    count = len(curve.values)
    if count <= 4 * buckets:
        return curve
    kept: list[int] = []
    for number in range(buckets):
        start, stop = count * number // buckets, count * (number + 1) // buckets
        part = curve.values[start:stop]
        kept += sorted({start, start + part.index(min(part)), start + part.index(max(part)), stop - 1})
    return Curve(curve.key, tuple(curve.steps[at] for at in kept), tuple(curve.values[at] for at in kept))
