"""When a hold ends, and what it costs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.holds.decide import Use, cost, ends_at, idle_since
from fsdpctl.holds.record import Held, Hold

HOLD = Hold("dev", "h100", "slurm", 2, created=0.0, time_s=3600, idle_s=600, gpus=16, price_per_gpu_hour=2.5)
HELD = Held(since=1000.0, nodes=("a", "b"))


@pytest.mark.parametrize(
    ("use", "end"),
    [
        (Use(), 1600.0),  # never used
        (Use("run-1"), 4600.0),  # while a run is on its nodes, only its time counts
        (Use(last_end=2000.0), 2600.0),
        (Use(last_end=4300.0), 4600.0),
    ],
)
def test_it_ends_after_its_time_or_too_long_without_a_run(use: Use, end: float) -> None:
    assert ends_at(HOLD, HELD, use) == end


def test_a_run_of_before_counts_from_when_the_nodes_were_given() -> None:
    assert idle_since(HELD, Use(last_end=1.0)) == 1000.0
    assert idle_since(HELD, Use("run-1")) is None


def test_it_costs_what_all_its_gpus_cost() -> None:
    assert cost(HOLD, 1800) == 20.0
    assert cost(replace(HOLD, price_per_gpu_hour=None), 1800) is None
    assert cost(replace(HOLD, gpus=0), 1800) is None
