"""Options that save memory do not change the numbers, and what torch cannot do is refused before anything starts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fsdpctl.contract.codec import decode, encode, read_json
from fsdpctl.contract.records import Outcome
from fsdpctl.contract.trainer.trainer_config import Recompute, TrainerConfig
from tests.train.ranks import Config, column, step_in_turn, train
from tests.train.single_rank import SingleRank
from tests.train.test_model import small_model
from train.metrics.memory import GpuPeaks
from train.metrics.stragglers import LocalComputeTimer
from train.model.llama.decoder import Llama
from train.parallel.parallelize import build_model


class CountProducts(TorchDispatchMode):
    """Counts matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.products = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.products += func is torch.ops.aten.mm.default
        return func(*args, **(kwargs or {}))


def gradients(recompute: Recompute, every: int = 1) -> tuple[list[Tensor], int, int]:
    """Return gradients of a model of four blocks with dropout, products in its backward pass, and values kept."""
    model: Llama = small_model(dropout=0.1, layers=4)
    for block in list(model.blocks)[::every]:
        block.recompute = recompute  # type: ignore[assignment]
    tokens = torch.arange(16).expand(2, 16)
    torch.manual_seed(3)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: (kept.append(t.numel()), t)[1], lambda t: t):
        loss = model(tokens, tokens.roll(-1, 1))
    with CountProducts() as counted:
        loss.backward()
    return [p.grad for p in model.parameters() if p.grad is not None], counted.products, sum(kept)


def test_recomputing_gives_the_same_gradients_to_the_bit() -> None:
    plain, products, kept = gradients("none")
    results = {(mode, n): gradients(mode, n) for mode in ("selective", "full") for n in (1, 2)}
    for grads, _, kept_less in results.values():
        assert all(torch.equal(a, b) for a, b in zip(grads, plain, strict=True))
        assert kept_less < kept
    assert results["selective", 1][1] == results["selective", 2][1] == products  # no product is made twice
    assert results["full", 1][1] - products == 2 * (results["full", 2][1] - products) > 0
    assert results["full", 1][2] < results["full", 2][2]


def test_the_peak_of_a_run_outlives_those_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    allocated = iter([3, 9, 4, 5])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: next(allocated))
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: None)
    peaks = GpuPeaks(torch.device("cuda"))
    assert [peaks.take_step() for _ in range(3)] == [3, 9, 4]
    assert peaks.highest() == 9
    assert (GpuPeaks(torch.device("cpu")).take_step(), GpuPeaks(torch.device("cpu")).highest()) == (None, None)


def test_blocks_recompute_as_configured(config: Config) -> None:
    config["memory"] = {"recompute": "selective", "recompute_every": 2}
    config["model"]["layers"] = 5
    world = SingleRank()
    model = build_model(decode(TrainerConfig, config), world, (1, 1), LocalComputeTimer(world.device).timed)
    assert [block.recompute for block in model.block_list()] == ["selective", "none"] * 2 + ["selective"]


def test_offload_recompute_and_frozen_parameters_in_sharded_worlds(tmp_path: Path, config: Config) -> None:
    config["model"]["dropout"] = 0.0
    frozen = {**config, "optim": {**config["optim"], "frozen": ["blocks.0.*", "embed.weight"]}}
    memory = {"cpu_offload": True, "recompute": "selective", "recompute_every": 2}
    saving = {**config, "memory": memory}
    alone = {"plain": config, "frozen": frozen, "saving": saving}
    step_in_turn(tmp_path / "1", alone)
    spread = {
        "FULL_SHARD": saving,
        "NO_SHARD": {**saving, "mesh": {"strategy": "NO_SHARD"}},
        "frozen": {**frozen, "memory": memory},
        "DDP": {**frozen, "memory": {"recompute": "full"}, "mesh": {"strategy": "DDP"}},
    }
    step_in_turn(tmp_path / "2", spread, procs_per_node=2)
    for name, expected in [("FULL_SHARD", "plain"), ("NO_SHARD", "plain"), ("frozen", "frozen"), ("DDP", "frozen")]:
        for key, tolerance in (("loss", 1e-6), ("grad_norm", 1e-5)):
            reference = column(tmp_path / "1" / expected, key)
            assert column(tmp_path / "2" / name, key) == pytest.approx(reference, rel=tolerance), name
    assert column(tmp_path / "1/saving", "loss") == pytest.approx(column(tmp_path / "1/plain", "loss"), rel=1e-6)
    assert column(tmp_path / "1/frozen", "loss")[-1] != pytest.approx(column(tmp_path / "1/plain", "loss")[-1])


def test_the_report_at_the_start_and_the_peak_at_the_end(tmp_path: Path, config: Config) -> None:
    config["optim"]["frozen"] = ["embed.weight"]
    config["mesh"] = {"strategy": "FULL_SHARD", "units": {"blocks": 2}}
    outcome = tmp_path / "outcome.json"
    log = train(tmp_path, config, procs_per_node=2, env={"FSDPCTL_OUTCOME_FILE": str(outcome)}).log()
    # A block: 32*16*(2*2 + 2*1) + 3*32*64 + 2*32 = 9,280 values. The rest: 2*128*32 + 32 = 8,224, 4,096 of them frozen.
    units = "units: 1 of 18,560 parameters, 9,280 on this rank (blocks.0 + blocks.1), 1 of 8,224 parameters, 4,112 on"
    assert f"{units} this rank (the rest)" in log
    assert "parameters: 26,784, of which 4,096 frozen" in log
    # The half of 26,784 and of the 22,688 trained, 4 bytes each; AdamW keeps two values for each trained one.
    assert "a rank holds: weights 0.05 MiB, gradients 0.04 MiB, optimizer 0.09 MiB" in log
    peak = read_json(Outcome, outcome).summary["peak_memory_gib"]
    assert 0.05 < peak < 8
    assert re.search(rf"peak memory {peak:.2f} GiB", log)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"mesh": {"strategy": "DDP"}, "memory": {"cpu_offload": True}}, "needs a strategy of FSDP"),
        ({"mesh": {"strategy": "DDP"}, "reduce_dtype": "bf16"}, "needs a strategy of FSDP"),
        ({"memory": {"recompute_every": 2}}, "does nothing"),
        ({"mesh": {"units": {"names": ["blocks.1.mlp"]}}, "memory": {"recompute": "full"}}, "takes whole blocks"),
        ({"mesh": {"units": {"blocks": 0}, "prefetch": 1}}, "no next one"),
        ({"mesh": {"units": {"blocks": 2}, "prefetch": 1}}, "no next one"),
        ({"memory": {"recompute": "full", "recompute_every": 0}}, "at least 1"),
        ({"batch": {"micro_batch": 1}}, "one of them"),
        ({"batch": {"micro_batch": 1, "sequences": 2, "tokens": 64}}, "one of them"),
        ({"batch": {"micro_batch": 1, "tokens": 65}}, "65 tokens do not divide into sequences of 32"),
        ({"max_skipped_steps": 0}, "at least 1"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(config: Config, change: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        decode(TrainerConfig, {**config, **change})


def test_a_batch_of_tokens_is_one_of_sequences(config: Config) -> None:
    config["batch"] = {"tokens": 8 * 32, "micro_batch": 2}
    assert encode(decode(TrainerConfig, config))["batch"] == {"micro_batch": 2, "sequences": 8, "tokens": 0}
