from __future__ import annotations

from dataclasses import astuple

import pytest

from fsdpctl.scaling.points import Point
from fsdpctl.scaling.result import Loss, compare, measure
from tests.unit.scaling.results import point


def test_the_median_of_the_measured_steps_counts() -> None:
    """Not the first steps, which compile, nor the last ones, which are traced."""
    rates = [1.0, 50.0, 90.0, 100.0, 80.0, 100.0, 125.0, 100.0, 20.0, 20.0, 20.0]
    lines = [{"step": step, "tokens_per_s": rate, "mfu": rate / 250} for step, rate in enumerate(rates, 1)]
    found = measure(Point(2, "DDP", 1, 2), 400, lines, 5, {"peak_memory_gib": 1.5, "compute_share": 0.5})
    assert found is not None
    assert (found.step_s, found.tokens_per_s, found.tokens_per_s_gpu) == (4.0, 100.0, 50.0)
    assert found.mfu == 0.4
    assert (found.peak_memory_gib, found.compute_share, found.communication_share) == (1.5, 0.5, None)
    assert measure(Point(2, "DDP", 1, 2), 400, lines[:7], 5, {}) is None


def test_each_strategy_is_compared_with_its_smallest_number_of_gpus() -> None:
    points = [point(2, "FULL_SHARD", 100), point(4, "FULL_SHARD", 80), point(2, "DDP", 50), point(4, "DDP", 45)]
    assert [found.efficiency for found in compare(points)] == [1.0, 0.8, 1.0, 0.9]


def test_a_single_rank_is_the_base_of_all_strategies_unless_it_has_failed() -> None:
    points = [point(1, None, 100), point(2, "FULL_SHARD", 90), point(2, "DDP", 80)]
    assert [found.efficiency for found in compare(points)] == [1.0, 0.9, 0.8]
    points[0] = point(1, None, None)
    assert [found.efficiency for found in compare(points)] == [None, 1.0, 1.0]


def test_the_parts_of_the_loss_add_up_to_it() -> None:
    base = point(1, None, 100, (0.95, 0.0, 0.0))
    found = compare([base, point(8, "DDP", 80, (0.80, 0.30, 0.12))])[1]
    assert found.lost is not None and found.efficiency is not None
    assert astuple(found.lost) == pytest.approx(astuple(Loss(communication=0.12, compute=0.04, idle=0.04)))
    assert found.lost.communication + found.lost.compute + found.lost.idle == pytest.approx(1 - found.efficiency)


def test_without_a_trace_only_the_efficiency_is_known() -> None:
    found = compare([point(1, None, 100), point(8, "DDP", 80, None)])[1]
    assert (found.efficiency, found.lost) == (0.8, None)
