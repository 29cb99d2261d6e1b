"""Float8 trains like bf16 in every form, and resumes exactly from fp32 weights. On CPUs its products are emulated."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.services import require
from tests.train.ranks import Config, column, saved_tensors, step_in_turn, train
from train.errors import ConfigError
from train.parallel import float8

FORMS: dict[str, dict[str, Any]] = {
    "tensorwise": {},
    "rowwise": {"float8": {"recipe": "rowwise"}},
    "some layers": {"float8": {"layers": ["blocks.*.mlp.*"]}},
}
SHARDED: dict[str, dict[str, Any]] = {
    **FORMS,
    "gathered in float8": {"float8": {"gather": True}},
    "units of float8 only": {"float8": {"gather": True}, "mesh": {"units": {"names": ["blocks.*.attention", "embed"]}}},
    "recomputed": {"memory": {"recompute": "selective"}},
    "DDP": {"mesh": {"strategy": "DDP"}},
    "NO_SHARD": {"mesh": {"strategy": "NO_SHARD"}},
}


def test_float8_is_near_bf16_in_every_form(tmp_path: Path, config: Config) -> None:
    require("torchao")
    config["model"]["dropout"] = 0.0
    config["precision"] = "float8"
    alone = {name: {**config, **form} for name, form in FORMS.items()}
    step_in_turn(tmp_path / "1", {"bf16": {**config, "precision": "bf16"}, **alone})
    step_in_turn(tmp_path / "2", {name: {**config, **form} for name, form in SHARDED.items()}, procs_per_node=2)
    expected = column(tmp_path / "1/bf16", "loss")
    losses = {run: column(tmp_path / run, "loss") for run in (*(f"1/{n}" for n in FORMS), *(f"2/{n}" for n in SHARDED))}
    for run, found in losses.items():
        assert found != expected, run
        assert found == pytest.approx(expected, rel=1e-3), run
    assert len({tuple(losses[f"2/{name}"]) for name in FORMS}) == len(FORMS)
    assert losses["2/recomputed"] == losses["2/tensorwise"]
    assert losses["2/gathered in float8"] != losses["2/tensorwise"]  # cast from fp32, and not from bf16


def test_a_run_resumes_exactly_and_in_another_precision(tmp_path: Path, config: Config) -> None:
    require("torchao")
    config.update(precision="float8", float8={"gather": True}, steps=8)
    config["checkpoint"]["every_steps"] = 4
    straight, run = tmp_path / "straight", tmp_path / "run"
    train(straight, config, procs_per_node=2)
    weight = saved_tensors(straight, 4)["model.blocks.0.mlp.down.weight"]
    assert type(weight) is torch.Tensor
    assert weight.dtype == torch.float32
    assert (weight != weight.to(torch.bfloat16)).any()  # the masters, and nothing that was rounded

    train(run, {**config, "steps": 4}, procs_per_node=2)
    train(run, config, procs_per_node=2)
    assert column(run, "loss_hex") == column(straight, "loss_hex")
    train(run, {**config, "precision": "bf16", "float8": {}, "steps": 12}, procs_per_node=1)
    assert column(run, "loss")[-1] == pytest.approx(column(straight, "loss")[-1], rel=0.1)


@pytest.mark.parametrize(("capability", "refused"), [((8, 0), True), ((8, 9), False), ((9, 0), False)])
def test_a_gpu_without_float8_is_refused(
    capability: tuple[int, int], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "A100")
    try:
        float8.require_float8(torch.device("cuda"))
    except ConfigError as error:
        assert refused
        assert "a A100 multiplies no float8" in str(error)
    else:
        assert not refused


def test_without_torchao_the_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchao.float8", None)
    with pytest.raises(ConfigError, match=r"precision float8 needs torchao.*pip install 'fsdpctl\[float8\]'"):
        float8.convert(torch.nn.Linear(16, 16), "tensorwise", gathers=False, emulate=True)
