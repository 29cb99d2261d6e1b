"""What `fsdpctl bench scaling` refuses before anything runs, and its table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from typer.testing import CliRunner

from fsdpctl.cli.app import build_app
from fsdpctl.cli.scaling_table import print_scaling
from fsdpctl.errors import UsageError
from fsdpctl.scaling.result import Scaling, compare
from tests.unit.scaling.results import point


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--gpus", "1,two"), "--gpus takes numbers from 1 to 9999"),
        (("--gpus", "0"), "--gpus takes numbers"),
        (("--gpus", "1,"), "--gpus takes numbers"),
        (("--gpus", "9" * 5000), "--gpus takes numbers"),
        (("--gpus", "1", "--strategy", "FULL_SHARD,ZERO3"), "--strategy: 'ZERO3' is none of FULL_SHARD, SHARD_GRAD_OP"),
        (("--gpus", "1", "--time-limit", "20"), "--time-limit: a duration is written like"),
        (("--gpus", "1", "--plot", "chart.png"), "--plot writes SVG, got chart.png"),
        (("--gpus", "1", "--plot", "nowhere/chart.svg"), "there is no directory nowhere"),
        (("--gpus", "1", "--set", "trainer.batch.sequence=1"), "did you mean sequences"),
    ],
)
def test_a_wrong_option_is_named_with_what_is_allowed(words: tuple[str, ...], text: str) -> None:
    done = CliRunner().invoke(build_app("bench"), ["bench", "scaling", "llm-tiny", *words])
    assert isinstance(done.exception, UsageError)
    assert text in done.exception.message


def test_steps_that_take_minutes_on_cpus_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> None:
    monkeypatch.setenv("FSDPCTL_HOME", str(tmp_path))
    done = CliRunner().invoke(
        build_app("bench"), ["bench", "scaling", "llm7b", "-p", "local", "--gpus", "1", "--set", "profile=local"]
    )
    assert isinstance(done.exception, UsageError)
    assert done.exception.message.startswith("a single rank: 6,738,415,616 parameters and")


def test_the_table_has_a_row_for_each_point(capsys: pytest.CaptureFixture[str]) -> None:
    points = [point(1, None, 1000), point(2, "FULL_SHARD", 900, (0.8, 0.2, 0.1))]
    print_scaling(Scaling("job", "local", "cuda", "weak", 20, compare(points), ("a sentence",)))
    assert capsys.readouterr().out.splitlines() == [
        "GPUS  STRATEGY    TOKENS/S  A GPU  EFFICIENCY  PEAK GIB  COMM  EXPOSED",
        "1     -           1,000     1,000  100%        10.0      0%    0%",
        "2     FULL_SHARD  1,800     900    90%         10.0      20%   10%",
        "a sentence",
    ]


def test_expected_values_and_problems_have_columns_where_there_are_any(capsys: pytest.CaptureFixture[str]) -> None:
    failed = replace(point(2, "DDP", None, expected=900), run_id="x", category="cuda_oom", problem="Full.")
    print_scaling(Scaling("job", "local", "cuda", "weak", 20, compare([point(1, None, 1000), failed])))
    assert capsys.readouterr().out.splitlines() == [
        "GPUS  STRATEGY  TOKENS/S  A GPU  EXPECTED  EFFICIENCY  PEAK GIB  EXPECTED  COMM  EXPOSED  PROBLEM",
        "1     -         1,000     1,000  -         100%        10.0      -         0%    0%",
        "2     DDP       -         -      900       -           -         11.0      -     -        cuda_oom: Full.",
    ]
