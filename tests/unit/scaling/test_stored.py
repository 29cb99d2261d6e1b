"""Results of benchmarks that are kept, and which one a report takes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.contract.codec import encode
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.errors import UsageError
from fsdpctl.runs.registry import home
from fsdpctl.scaling.result import Scaling, compare
from fsdpctl.scaling.stored import find_scaling, read_scaling, store_scaling
from fsdpctl.specs.load import load_job
from tests.unit.scaling.results import point

RESULT = Scaling("mine", "h100", "cuda", "weak", 20, compare([point(1, None, 1000), point(8, "FULL_SHARD", 900)]))


def model(*overrides: str) -> ModelConfig:
    trainer = load_job("llm-tiny", overrides).trainer
    assert trainer is not None
    return trainer.model


def test_a_report_takes_the_newest_comparison_of_its_model_on_its_profile() -> None:
    assert find_scaling(model(), "h100") is None, "there is none yet"
    newest = replace(RESULT, ended=3.0)
    store_scaling(model(), newest)
    for other in (
        replace(RESULT, ended=2.0),
        replace(RESULT, ended=4.0, profile="a100"),
        replace(RESULT, ended=5.0, points=RESULT.points[:1]),
        replace(RESULT, ended=6.0, points=(RESULT.points[0], point(8, "FULL_SHARD", None))),
    ):
        store_scaling(model(), other)
    store_scaling(model("trainer.model.d_model=32"), replace(RESULT, ended=7.0))
    (home() / "scaling" / "broken.json").write_text("{")
    assert find_scaling(model(), "h100") == newest
    assert find_scaling(model(), "another") is None


def test_a_file_is_what_the_command_has_printed(tmp_path: Path) -> None:
    path = tmp_path / "scaling.json"
    with pytest.raises(UsageError, match="No such file"):
        read_scaling(path)
    for text in ("", "[]", '{"job": 1}'):
        path.write_text(text)
        with pytest.raises(UsageError, match="--scaling"):
            read_scaling(path)
    path.write_text(json.dumps(encode(RESULT)))
    assert read_scaling(path) == RESULT
