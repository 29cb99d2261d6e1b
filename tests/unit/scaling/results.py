"""Points of a benchmark with given numbers."""

from __future__ import annotations

from fsdpctl.scaling.result import Expected, Measured, ScalingPoint

BUSY = (1.0, 0.0, 0.0)  # compute, communication, exposed


def point(
    gpus: int,
    strategy: str | None,
    rate: float | None,
    shares: tuple[float, float, float] | None = BUSY,
    expected: float | None = None,
) -> ScalingPoint:
    """Return a point with a speed of each GPU, None if it has failed, its trace, and the expected speed."""
    compute, communication, exposed = shares or (None, None, None)
    measured = None
    if rate is not None:
        measured = Measured(1000 / rate, rate * gpus, rate, None, 10.0, compute, communication, exposed)
    return ScalingPoint(
        gpus, 1, strategy, 8, 1, 1000 * gpus, Expected(expected, 11.0, 0.0) if expected else None, measured=measured
    )
