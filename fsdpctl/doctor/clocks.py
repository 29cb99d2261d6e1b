"""Compare the clocks of nodes. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping

from fsdpctl.contract.findings import MAX_CLOCK_SKEW_S, Check, Finding, fail, ok, warn

NOTED_CLOCK_SKEW_S = 2.0
"""More than the uncertainty of a request to a busy node."""


def compare_clocks(skews: Mapping[int, float]) -> dict[int, list[Finding]]:
    """Compare each clock with the median of all clocks, including this machine's: seconds ahead by node rank."""
    median = statistics.median_low([0.0, *skews.values()]) if len(skews) != 1 else 0.0
    return {rank: [_clock_finding(skew - median)] for rank, skew in skews.items()}


def _clock_finding(skew: float) -> Finding:
    if abs(skew) < NOTED_CLOCK_SKEW_S:
        return ok(Check.CLOCK, f"within {NOTED_CLOCK_SKEW_S:.0f} s of the other clocks")
    direction = "ahead of" if skew > 0 else "behind"
    warn_or_fail = fail if abs(skew) > MAX_CLOCK_SKEW_S else warn
    fix = "start chrony or ntpd there: logs of several nodes are ordered by their clocks"
    return warn_or_fail(Check.CLOCK, f"its clock is {abs(skew):.0f} s {direction} the others'", fix)
