from __future__ import annotations

from datetime import UTC, datetime

import pytest

from fsdpctl.logs.stamp import body, parse_stamp

NEAR = datetime(2026, 11, 28).timestamp()
STAMP = datetime(2026, 11, 27, 23, 5, 46).timestamp()


@pytest.mark.parametrize(
    ("text", "fraction", "rest"),
    [
        ("2026-11-27T23:05:46.123 step 1", 0.123, " step 1"),
        ("2026-11-27T23:05:46", 0, ""),
        ("2026-11-27 23:05:46,123 INFO step", 0.123, " INFO step"),
        ("2026-11-27 23:05:46 100 tokens", 0, " 100 tokens"),
        ("[2026-11-27 23:05:46,123] torch.distributed.run", 0.123, "] torch.distributed.run"),
        ("I1127 23:05:46.123000 ready", 0.123, " ready"),
        ("W1127 23:05:46.123000 4711 torch/x.py:12] careful", 0.123, " torch/x.py:12] careful"),
        ("[W1127 23:05:46.123456789 socket.cpp:462] cannot", 0.123456789, " socket.cpp:462] cannot"),
        ("[rank0]:[W1127 23:05:46.123 ProcessGroupNCCL.cpp:1] x", 0.123, " ProcessGroupNCCL.cpp:1] x"),
    ],
)
def test_a_stamp_is_read_and_is_not_part_of_the_body(text: str, fraction: float, rest: str) -> None:
    assert parse_stamp(text, NEAR) == pytest.approx(STAMP + fraction, abs=1e-6)
    assert body(text) == rest


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        ("2026-11-27T23:05:46Z", 23),
        ("2026-11-27T23:05:46.000+01:00", 22),
        ("2026-11-27 23:05:46,000+0100", 22),
        ("2026-11-27 23:05:46-0100", 24),
    ],
)
def test_a_time_zone_is_applied(text: str, hour: int) -> None:
    midnight = datetime(2026, 11, 27, tzinfo=UTC).timestamp()
    assert parse_stamp(text, NEAR) == midnight + hour * 3600 + 5 * 60 + 46


@pytest.mark.parametrize(
    "text",
    [
        "",
        "step 3 at 2026-11-27T23:05:46",
        "2026-13-45 99:99:99 no such day",
        "9999-99-99 00:00:00",
        "W1399 23:05:46.123 no such day",
        "\u0662\u0660\u0662\u0666-11-27 23:05:46 digits of another script",
        "Traceback (most recent call last):",
    ],
)
def test_other_text_has_no_stamp(text: str) -> None:
    assert parse_stamp(text, NEAR) is None


@pytest.mark.parametrize(
    ("near", "year"), [((2027, 1, 2), 2026), ((2026, 12, 31), 2026), ((2026, 6, 29), 2026), ((2025, 12, 1), 2025)]
)
def test_glog_gets_the_year_nearest_to_the_file(near: tuple[int, int, int], year: int) -> None:
    stamp = parse_stamp("I1127 23:05:46.000 x", datetime(*near).timestamp())
    assert stamp == datetime(year, 11, 27, 23, 5, 46).timestamp()


def test_glog_on_a_leap_day_far_from_one() -> None:
    assert parse_stamp("I0229 00:00:00.0 x", datetime(2027, 9, 1).timestamp()) == datetime(2028, 2, 29).timestamp()


def test_the_rank_mark_of_torch_is_not_part_of_the_body() -> None:
    assert body("[rank3]: ValueError: x") == body("[rank11]: ValueError: x") == "ValueError: x"
