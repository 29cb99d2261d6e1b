"""Steps that are not finite change nothing and end the run when there are too many; no such state is ever saved."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fsdpctl.contract.codec import decode
from fsdpctl.contract.trainer.trainer_config import OptimConfig, TrainerConfig
from tests.train import faults
from tests.train.ranks import Config, checkpoints, column, metrics, start, step_in_turn, train
from tests.train.test_model import small_model
from train.data.batch import Batch, split_targets
from train.data.sample_order import SampleOrder
from train.data.tokens import open_dataset, write_dataset
from train.model.language_model import IGNORED
from train.model.llama.decoder import Llama
from train.model.values import init_weights
from train.nonfinite import LargestValues, NonFiniteError, NonFiniteGuard, StepResult
from train.optim import build_optimizer, take_step


class World:
    """Three ranks, as far as a guard asks: this one is the first."""

    device = torch.device("cpu")
    is_main = True

    def gather(self, value: Any) -> list[Any]:
        return [value, float("nan"), 1.0] if isinstance(value, float) else [value] * 3


def make_guard(dtype: torch.dtype = torch.float32, limit: int = 3) -> NonFiniteGuard:
    return NonFiniteGuard(World(), dtype, limit)  # type: ignore[arg-type]


def test_a_step_that_is_not_finite_changes_neither_weights_nor_optimizer() -> None:
    model, guard = small_model(), make_guard()
    optimizer = build_optimizer(model, OptimConfig(lr=0.1))

    def state() -> list[torch.Tensor]:
        values = [value for parameter in model.parameters() for value in optimizer.state[parameter].values()]
        return [tensor.detach().clone() for tensor in (*model.parameters(), *values)]

    for bad in (False, True, True, False):
        before = state()
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, float("inf") if bad else 1.0)
        norm = torch.tensor(float("inf") if bad else 1.0)
        take_step(optimizer, 0.1, guard.judge(torch.tensor(1.0), norm))
        unchanged = all(torch.equal(a, b) for a, b in zip(before, state(), strict=True))
        assert unchanged == bad
    assert (int(guard.skipped), int(guard.in_a_row)) == (2, 0)


def test_a_step_in_which_only_norms_are_trained_changes_only_them() -> None:
    model = small_model()
    for parameter in model.parameters():
        parameter.requires_grad_(parameter.ndim < 2)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = build_optimizer(model, OptimConfig(lr=0.1))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter) if parameter.requires_grad else None
    take_step(optimizer, 0.1, torch.tensor(0.0))
    changed = [not torch.equal(old, new) for old, new in zip(before, model.parameters(), strict=True)]
    assert changed == [parameter.requires_grad for parameter in model.parameters()] and any(changed)


def test_the_message_names_step_samples_and_rank() -> None:
    guard = make_guard(limit=3)
    guard.watch(StepResult(8, "ab", float("nan"), 1.0, 2.0, skipped=2, in_a_row=2))
    with pytest.raises(
        NonFiniteError, match=r"3 steps in a row .* step 9 \(samples cd\): .* not finite on rank 1 \(nan\)"
    ):
        guard.watch(StepResult(9, "cd", float("nan"), 1.0, 2.0, skipped=3, in_a_row=3))


def test_the_loss_scale_halves_at_a_bad_step_and_doubles_after_many_good_ones() -> None:
    guard = make_guard(torch.float16)
    one, bad = torch.tensor(1.0), torch.tensor(float("inf"))
    scales = []
    for step in range(4001):
        guard.judge(one, bad if step == 0 else one)
        scales.append(float(guard.scale))
    assert (scales[0], scales[1999], scales[2000], scales[3999], scales[4000]) == (2**15, 2**15, 2**16, 2**16, 2**17)
    assert float(make_guard(torch.bfloat16).scale) == 1


def test_one_bad_rank_makes_all_skip_and_a_resume_equals_the_straight_run(
    tmp_path: Path, straight: Path, config: Config
) -> None:
    config["max_skipped_steps"] = 3
    ranks = start(tmp_path, config, procs_per_node=2, fault=faults.loss_is_nan, fault_args=(1, [2, 6, 7, 8]))
    assert ranks.wait() == [1, 1], ranks.log()
    assert column(tmp_path, "skipped") == [0, 1, 1, 1, 1, 2, 3, 4]
    assert [record["step"] for record in metrics(tmp_path) if record["loss"] is None] == [2, 6, 7, 8]
    assert column(tmp_path, "loss_hex")[5:] == ["nan"] * 3
    message = f"up to step 8 (samples {column(straight, 'samples')[7]}): its loss is not finite on rank 1 (nan)"
    assert message in ranks.log()
    assert max(checkpoints(tmp_path)) == "step-00000004"  # the save at step 8 never began

    train(tmp_path, config, procs_per_node=2, fault=faults.loss_is_nan, fault_args=(1, [2]))
    train(tmp_path / "other", config, procs_per_node=2, fault=faults.loss_is_nan, fault_args=(1, [2]))
    for name in ("loss_hex", "skipped", "grad_norm"):
        assert column(tmp_path, name) == column(tmp_path / "other", name)


def test_weights_that_are_not_finite_are_never_saved(tmp_path: Path, config: Config) -> None:
    ranks = start(tmp_path, config, procs_per_node=2, fault=faults.weights_become_infinite, fault_args=(1, 8))
    assert ranks.wait() == [1, 1], ranks.log()
    message = (
        "after step 8 weights or optimizer state are not finite on rank 1 (model.blocks.0.mlp.down.weight): not saved"
    )
    assert message in ranks.log()
    assert max(name for name in checkpoints(tmp_path) if "." not in name) == "step-00000004"


def test_each_tensor_that_is_not_finite_is_found_by_one_question(monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest finite values are no infinities, and a rank may hold nothing of a small tensor."""
    tensors = {
        "nan": torch.tensor([[1.0, float("nan")], [float("inf"), 2.0]]),
        "large": torch.full((3, 5), -torch.finfo(torch.float32).max),
        "nothing": torch.empty(0, 4),
        "minus": torch.tensor([0.0, float("-inf")]),
        "step": torch.tensor(7.0),
        "half": torch.full((9,), torch.finfo(torch.bfloat16).max, dtype=torch.bfloat16),
        "bad half": torch.tensor([float("nan")], dtype=torch.bfloat16),
    }
    asked = []
    answer = torch.Tensor.tolist
    monkeypatch.setattr(torch.Tensor, "tolist", lambda tensor: asked.append(tensor) or answer(tensor))
    for single in ("__bool__", "item"):  # what asks a GPU once more
        monkeypatch.setattr(torch.Tensor, single, None)
    assert LargestValues.of(tensors, torch.device("cpu")).not_finite() == ["nan", "minus", "bad half"]
    assert len(asked) == 1


def test_ignored_targets_do_not_count_in_any_world(tmp_path: Path, config: Config) -> None:
    config["data"]["ignore_token"] = ord(" ")
    config["model"]["dropout"] = 0.0
    step_in_turn(tmp_path / "1", {"masked": config, "all": {**config, "data": {"source": config["data"]["source"]}}})
    step_in_turn(tmp_path / "2", {"masked": config}, procs_per_node=2)
    one, two, everything = tmp_path / "1/masked", tmp_path / "2/masked", tmp_path / "1/all"
    assert column(one, "valid_tokens") == column(two, "valid_tokens")
    assert len(set(column(one, "valid_tokens"))) > 1
    assert max(column(one, "valid_tokens")) < 8 * 32 == max(column(everything, "valid_tokens"))
    assert column(one, "loss") == pytest.approx(column(two, "loss"), rel=1e-6)
    assert column(one, "grad_norm") == pytest.approx(column(two, "grad_norm"), rel=1e-5)
    assert column(one, "loss")[0] != pytest.approx(column(everything, "loss")[0], rel=1e-6)
    assert_mean_over_valid_targets(two, config)


def assert_mean_over_valid_targets(run: Path, config: Config) -> None:
    """Compare the first step's loss and gradient with those that torch computes of the whole batch at once."""
    parsed = decode(TrainerConfig, config)
    model = Llama(parsed.model)
    init_weights(model, parsed.seed)
    model.fill_buffers()
    tokens = open_dataset(Path(parsed.data.source), parsed.model.seq_len, parsed.model.vocab_size).train
    ids = SampleOrder(tokens.num_sequences, parsed.batch.sequences, parsed.seed).step_ids(0)
    inputs, targets = split_targets(Batch(tokens.sequences(ids), None), ord(" "))
    loss = torch.nn.functional.cross_entropy(model.logits(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    norm = torch.nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    assert IGNORED == -100, "what torch ignores"
    assert column(run, "loss")[0] == pytest.approx(loss.item(), rel=1e-6)
    assert column(run, "grad_norm")[0] == pytest.approx(norm.item(), rel=1e-5)


def test_a_batch_without_a_valid_token_has_zero_loss(tmp_path: Path, config: Config) -> None:
    data = tmp_path / "data"
    data.mkdir()
    tokens = np.full(4_000, 5, dtype=np.uint8)
    documents = [("train", tokens), ("val", tokens[:400])]
    write_dataset(data, documents, source="padding", fingerprint="p-1", dtype="uint16", vocab_size=128)
    config.update(data={"source": str(data), "ignore_token": 5}, steps=4)
    ranks = train(tmp_path / "run", config)
    assert column(tmp_path / "run", "loss") == [0.0] * 4
    assert column(tmp_path / "run", "grad_norm") == [0.0] * 4
    assert column(tmp_path / "run", "valid_tokens") == [0] * 4
    assert "held-out loss 0.0000" in ranks.log()


def test_only_the_ignored_token_is_masked_and_only_as_a_target() -> None:
    inputs, targets = split_targets(Batch(torch.tensor([[0, 1, 0, 2]]), None), ignore_token=0)
    assert inputs.tolist() == [[0, 1, 0]]
    assert targets.tolist() == [[1, IGNORED, 2]]
    assert split_targets(Batch(torch.tensor([[0, 0]]), None), None)[1].tolist() == [[0]]
