from __future__ import annotations

from typing import Any

import pytest

from fsdpctl.contract.clock import format_clock, format_time
from fsdpctl.verbs.status import Speed, describe_slow, measure_speed, step_times


def lines(count: int, seconds_per_step: float = 0.5, attempt: int = 1, first: int = 1) -> list[dict[str, Any]]:
    steps = range(first, first + count)
    return [{"step": s, "time": 100 + s * seconds_per_step, "tokens": s * 64, "attempt": attempt} for s in steps]


def test_speed_is_measured_over_the_last_steps() -> None:
    slow_start = [{**line, "time": line["time"] - 1000} for line in lines(5)]
    assert measure_speed([*slow_start, *lines(25, first=6)], 40) == Speed(128.0, 5.0)


def test_the_speed_that_the_device_measured_counts_more_than_when_the_host_had_queued_the_steps() -> None:
    """After a resume the host queues steps faster than the GPU does them."""
    queued = [{**line, "tokens_per_s": 64.0} for line in lines(10, seconds_per_step=0.01)]
    queued[0]["tokens_per_s"] = 1.0  # it compiles
    assert measure_speed(queued, 20) == Speed(64.0, 10.0)
    uneven = [*lines(1), *({**line, "tokens_per_s": 64.0 if line["step"] % 2 else 16.0} for line in lines(4, first=2))]
    assert measure_speed(uneven, None) == Speed(4 * 64 / (1 + 1 + 4 + 4), None)


def test_the_pause_between_attempts_does_not_count() -> None:
    later = [{**line, "time": line["time"] + 1000} for line in lines(3, attempt=2, first=11)]
    assert measure_speed([*lines(10), *later], None) == Speed(128.0, None)


@pytest.mark.parametrize("known", [[], lines(1), [{"loss": 1.0}, {"loss": 2.0}], [lines(1)[0], lines(1)[0]]])
def test_without_two_steps_there_is_no_speed(known: list[dict[str, Any]]) -> None:
    assert measure_speed(known, 40) is None


def test_a_script_without_tokens_has_the_time_left_and_may_leave_steps_out() -> None:
    """A Trainer reports every few seconds."""
    sparse = [{"step": step, "time": step * 0.5, "attempt": 1} for step in (10, 14, 24)]
    assert measure_speed(sparse, 124) == Speed(None, 50.0)
    assert measure_speed(sparse, None) is None
    assert step_times(sparse) == [0.5, 0.5]


def test_clock() -> None:
    assert [format_clock(s) for s in (0, 59.6, 3723, 93784)] == ["0:00:00", "0:01:00", "1:02:03", "1d 02:03:04"]


def test_slow_ranks_are_named() -> None:
    assert describe_slow({"slow_ranks": {"1": "n1", "9": "n5"}}) == "; slow: rank 1 on n1, rank 9 on n5"
    assert [describe_slow({"slow_ranks": value}) for value in ({}, None, [1], "x")] == [""] * 4
    assert describe_slow({"step": 3}) == ""


def test_there_is_no_negative_time_left() -> None:
    assert measure_speed(lines(10), 5) == Speed(128.0, None)


@pytest.mark.parametrize("seconds", [1e308, float("nan"), float("inf")])
def test_a_number_that_is_no_time_is_shown_as_such(seconds: float) -> None:
    assert format_time(seconds) == "at no known time"
