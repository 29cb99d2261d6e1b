"""The index of times beside a log has a limit, and a reader follows it through a thinning."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest

from fsdpctl.contract import log_times
from fsdpctl.contract.log_times import Growth, TimesReader, append_growth

LIMIT = 24 * 200


@pytest.fixture
def times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(log_times, "LIMIT_BYTES", LIMIT)
    monkeypatch.setattr(log_times, "_EXACT", 20)
    return tmp_path / "rank-0.times"


def growth(number: int) -> Growth:
    return Growth(10 * number, number - 1.0, float(number))


def test_a_long_index_is_thinned_and_still_covers_the_whole_log(times: Path) -> None:
    for number in range(1, 3001):
        append_growth(times, growth(number))
        assert times.stat().st_size <= LIMIT
    entries = list(TimesReader(times, 0).read())
    assert (entries[0].since, entries[-1]) == (0.0, growth(3000))
    assert all(before.end < after.end and before.time == after.since for before, after in pairwise(entries))
    assert times.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("every", [1, 7, 60, 333])
def test_a_reader_gets_each_byte_once_though_the_index_is_thinned_meanwhile(times: Path, every: int) -> None:
    reader, found = TimesReader(times, 0), []
    for number in range(1, 3001):
        append_growth(times, growth(number))
        if number % every == 0:
            found += reader.read()
    found += reader.read()
    assert all(before.end < after.end for before, after in pairwise(found))
    assert found[-1] == growth(3000)
    exact = {growth(number) for number in range(1, 3001)}
    assert every > 20 or set(found) == exact


def test_an_entry_that_was_cut_by_a_full_disk_does_not_stop_the_thinning(times: Path) -> None:
    append_growth(times, *map(growth, range(1, 200)))
    times.write_bytes(times.read_bytes() + b"cut")
    append_growth(times, growth(200))
    assert len(list(TimesReader(times, 0).read())) <= 120


def test_times_are_equally_exact_over_the_whole_log_however_often_it_was_thinned(times: Path) -> None:
    for number in range(1, 3001):
        append_growth(times, growth(number))
    longest_s = max(entry.time - entry.since for entry in TimesReader(times, 0).read())
    assert longest_s <= 2 * 3000 / 100


def test_an_entry_after_a_pause_stays_exact() -> None:
    busy = [growth(number) for number in range(1, 1001)]
    late = Growth(20_000, 90_000.0, 90_001.0)
    joined = log_times.join_close([*busy, late], 100)
    assert joined[-1] == late
    assert len(joined) <= 100
