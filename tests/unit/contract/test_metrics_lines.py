"""Lines of metrics.jsonl for users' scripts: values, and the steps that a new attempt does again."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from fsdpctl.contract.metrics_lines import metrics_line, remove_repeated


def write(path: Path, *steps: tuple[int, int]) -> None:
    path.write_bytes(b"".join(metrics_line(step, 1.0, attempt, {}) for attempt, step in steps))


def steps_of(path: Path) -> list[int]:
    return [json.loads(line)["step"] for line in path.read_text().splitlines()]


def test_a_line_has_the_values_and_null_for_what_is_no_number() -> None:
    line = json.loads(metrics_line(3, 1.5, 2, {"loss": math.nan, "lr": 0.1}, total=9))
    assert line == {"step": 3, "time": 1.5, "attempt": 2, "total": 9, "loss": None, "lr": 0.1}


def test_a_value_does_not_replace_the_step_or_the_time_of_a_line() -> None:
    line = json.loads(metrics_line(3, 1.5, 2, {"step": 7, "time": 0.2, "attempt": 9, "total": 4, "lr": 0.1}))
    assert line == {"step": 3, "time": 1.5, "attempt": 2, "lr": 0.1}


@pytest.mark.parametrize(
    ("first", "kept"), [(3, [1, 2]), (5, [1, 2, 3, 4]), (9, [1, 2, 3, 4]), (1, []), (0, [])], ids=str
)
def test_steps_that_are_done_again_are_removed(first: int, kept: list[int], tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, (1, 1), (1, 2), (1, 3), (2, 4))
    remove_repeated(path, first, attempt=3)
    assert steps_of(path) == kept


def test_a_line_that_was_cut_short_is_removed_and_others_of_the_attempt_stay(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    write(path, (1, 1), (2, 2))
    remove_repeated(path, 1, attempt=2)
    assert steps_of(path) == [1, 2]
    path.write_text(path.read_text() + '{"step": 3, "att')
    remove_repeated(path, 4, attempt=3)
    assert steps_of(path) == [1, 2]


def test_lines_without_an_attempt_stay(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 7}\n')
    remove_repeated(path, 1, attempt=2)
    assert path.read_text() == '{"step": 7}\n'
    remove_repeated(tmp_path / "missing.jsonl", 1, attempt=2)
