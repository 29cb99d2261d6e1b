"""The estimate beside steps that were measured on GPUs: docs/measured.md has the same table."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from bench.gpu.compare_estimates import Compared, compare

LINES: list[dict[str, Any]] = [
    json.loads(line) for line in (Path(__file__).parent / "measured.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("line", LINES, ids=[line["name"] for line in LINES])
def test_the_peak_is_never_below_and_near_to_what_was_measured(line: dict[str, Any]) -> None:
    case = compare(line)
    assert 0 <= case.memory_error <= 0.05
    assert abs(case.time_error) <= 0.10


def test_cases_that_were_held_out_are_as_near() -> None:
    cases: list[Compared] = [compare(line) for line in LINES if line["held_out"]]
    assert len(cases) * 3 >= len(LINES) - 2
    assert statistics.median(case.memory_error for case in cases) <= 0.03
    assert statistics.median(abs(case.time_error) for case in cases) <= 0.05
