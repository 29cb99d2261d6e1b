from __future__ import annotations

from collections.abc import Sequence

import pytest

from fsdpctl.scaling.describe import summarize
from fsdpctl.scaling.result import ScalingPoint, compare
from tests.unit.scaling.results import point

ALONE = point(1, None, 100, (0.95, 0.0, 0.0))


@pytest.mark.parametrize(
    ("points", "sentences"),
    [
        (
            [ALONE, point(4, "FULL_SHARD", 90), point(8, "FULL_SHARD", 80, (0.80, 0.30, 0.12))],
            [
                "FULL_SHARD: each of 8 GPUs has 80% of the speed of one alone, without FULL_SHARD; lost to"
                " communication that no compute hides (12%), slower compute (4%), time in which nothing runs (4%)"
            ],
        ),
        (
            [point(2, "DDP", 100), point(4, "DDP", 100), point(2, "NO_SHARD", 100), point(4, "NO_SHARD", 50, None)],
            [
                "DDP: each of 4 GPUs has 100% of the speed of one among 2: nothing is lost",
                "NO_SHARD: each of 4 GPUs has 50% of the speed of one among 2; where the rest is lost is not known,"
                " as there is no trace",
            ],
        ),
        (
            [point(1, None, 100, expected=200), point(2, "DDP", 90, (1.0, 0.1, 0.1), expected=190)],
            [
                "DDP: each of 2 GPUs has 90% of the speed of one alone, without DDP (expected: 95%); lost to"
                " communication that no compute hides (10%), slower compute (10%)"
            ],
        ),
        (
            [point(1, None, 133), point(2, "DDP", 242)],
            [
                "DDP: each of 2 GPUs has 182% of the speed of one alone, without DDP: more than linear, so the run on 1"
                " was slower than it should be, on hardware that is busy, throttled or short of memory, and the"
                " efficiencies do not count; repeat it alone"
            ],
        ),
        ([ALONE, point(8, "DDP", None)], []),
        ([point(2, "DDP", 100)], []),
    ],
)
def test_the_largest_number_of_gpus_of_each_strategy_is_described(
    points: Sequence[ScalingPoint], sentences: list[str]
) -> None:
    assert list(summarize(compare(points), "GPU")) == sentences
