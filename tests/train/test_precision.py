"""bf16 and fp16 train like fp32, spread or alone; fp16's loss scale survives a resume."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from fsdpctl.contract import NodeExit
from tests.train import faults
from tests.train.ranks import Config, column, metrics, start, step_in_turn, train
from train.parallel.parallelize import compute_dtype
from train.parallel.world import choose_algorithms

FIRST_SCALE = 2.0**34  # overflows fp16 in this small model, until it has been halved often enough


@pytest.mark.parametrize(
    ("capability", "dtype"), [((7, 0), torch.float16), ((7, 5), torch.float16), ((9, 0), torch.bfloat16)]
)
def test_the_device_chooses_unless_the_configuration_does(
    capability: tuple[int, int], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert (compute_dtype("auto", cpu), compute_dtype("auto", gpu)) == (torch.float32, dtype)
    assert (compute_dtype("fp16", cpu), compute_dtype("fp32", gpu)) == (torch.float16, torch.float32)


def test_low_precision_is_near_fp32_in_every_form(tmp_path: Path, config: Config) -> None:
    config["model"]["dropout"] = 0.0
    low = {name: {**config, "precision": name} for name in ("bf16", "fp16")}
    step_in_turn(tmp_path / "1", {"fp32": {**config, "precision": "fp32"}, **low})
    sharded = {**low, "bf16 reduced": {**low["bf16"], "reduce_dtype": "bf16"}}
    ddp = {f"{name} DDP": {**low[name], "mesh": {"strategy": "DDP"}} for name in low}
    step_in_turn(tmp_path / "2", {**sharded, **ddp}, procs_per_node=2)
    expected = column(tmp_path / "1/fp32", "loss")
    for run in (tmp_path / "1/bf16", tmp_path / "1/fp16", *(tmp_path / "2" / name for name in (*sharded, *ddp))):
        losses = column(run, "loss")
        assert losses != expected, run.name
        assert losses == pytest.approx(expected, rel=5e-3), run.name
        assert column(run, "skipped")[-1] == 0, run.name
    assert set(column(tmp_path / "2/fp16", "loss_scale")) == {2.0**16}
    assert set(column(tmp_path / "2/bf16", "loss_scale")) == {1.0}
    assert column(tmp_path / "2/bf16 reduced", "loss") != column(tmp_path / "2/bf16", "loss")


def test_the_loss_scale_finds_its_size_and_survives_a_resume(tmp_path: Path, config: Config) -> None:
    config.update(precision="fp16", steps=24, max_skipped_steps=24)
    config["optim"]["schedule"] = "constant"
    straight, run = tmp_path / "straight", tmp_path / "run"
    scaling: dict[str, Any] = {"procs_per_node": 2, "fault": faults.first_loss_scale, "fault_args": (FIRST_SCALE,)}
    train(straight, config, **scaling)
    scales, skipped = column(straight, "loss_scale"), column(straight, "skipped")
    assert scales[0] == FIRST_SCALE
    assert scales == [FIRST_SCALE / 2**count for count in [0, *skipped[:-1]]]  # each skip halves it once
    assert 4 < skipped[-1] == skipped[-2] < 24  # at the end steps count again

    ranks = start(run, config, procs_per_node=2, fault=faults.slow_scaled_steps, fault_args=(FIRST_SCALE, 0.1))
    ranks.wait_for_step(4)
    ranks.signal(1, signal.SIGTERM)
    assert ranks.wait() == [NodeExit.STOPPED] * 2, ranks.log()
    assert metrics(run)[-1]["step"] < 24
    train(run, config, **scaling)
    for name in ("loss_hex", "loss_scale", "skipped", "grad_norm"):
        assert column(run, name) == column(straight, name), name


def test_an_overflow_on_one_rank_halves_the_scale_of_all(tmp_path: Path, config: Config) -> None:
    config.update(precision="fp16", steps=4)
    disks = tmp_path / "disk-0", tmp_path / "disk-1"  # each rank writes down what it knows itself
    train(tmp_path, config, 2, 1, own_disks=True, fault=faults.loss_is_nan, fault_args=(1, [2]))
    for disk in disks:
        assert column(disk, "loss_scale") == [2.0**16, 2.0**16, 2.0**15, 2.0**15]
        assert column(disk, "skipped") == [0, 1, 1, 1]
    assert column(disks[0], "grad_norm") == column(disks[1], "grad_norm")


@pytest.mark.parametrize(
    ("device", "asked", "chosen", "workspace"),
    [("cpu", False, True, None), ("cuda", False, False, None), ("cuda", True, True, ":4096:8")],
)
def test_algorithms_are_deterministic_on_cpus_and_on_gpus_where_asked(
    device: str, asked: bool, chosen: bool, workspace: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    before = torch.are_deterministic_algorithms_enabled()
    try:
        choose_algorithms(torch.device(device), asked)
        assert torch.are_deterministic_algorithms_enabled() is chosen
        assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == workspace
    finally:
        torch.use_deterministic_algorithms(before)
