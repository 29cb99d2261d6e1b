"""The decoder against what it should compute, its first values, its size, and the optimizer's rules."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.trainer_config import OptimConfig
from train.checkpoint.train_state import seed_dropout
from train.model.language_model import IGNORED
from train.model.llama.block import GatedSiLU, rotate
from train.model.llama.decoder import Llama
from train.optim import build_optimizer, clip_gradients, learning_rate

SMALL: dict[str, Any] = {
    "vocab_size": 64,
    "d_model": 32,
    "layers": 2,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 8,
    "ffn": 48,
    "seq_len": 16,
}


def small_model(**changes: Any) -> Llama:
    config = LlamaConfig(**{**SMALL, **changes})
    model = Llama(config)
    model.fill_buffers()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(model.initial_value(name, parameter.shape, seed=1))
    return model


@pytest.mark.parametrize("tied", [True, False])
def test_the_number_of_parameters_is_the_promised_one(tied: bool) -> None:
    model = small_model(tie_embeddings=tied)
    assert sum(p.numel() for p in model.parameters()) == model.config.num_parameters


@pytest.mark.parametrize("tied", [True, False])
def test_the_operations_are_those_that_torch_counts(tied: bool) -> None:
    model, tokens = small_model(tie_embeddings=tied), torch.zeros(2, 16, dtype=torch.long)
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model(tokens, tokens).backward()
    counted = {str(operator): flops for operator, flops in counter.get_flop_counts()["Global"].items()}
    assert counted["aten.mm"] == model.config.matrix_flops * tokens.numel()
    assert counted["aten.bmm"] == 2 * model.config.attention_flops * tokens.numel(), "of the whole square"


@pytest.mark.parametrize("tied", [True, False])
def test_the_modules_that_can_be_units_are_those_with_parameters(tied: bool) -> None:
    model = small_model(tie_embeddings=tied)
    found = [name for name, module in model.named_modules() if any(True for _ in module.parameters())]
    left_out = {"", "blocks"} | ({"embed"} if tied else set())
    assert model.config.module_names() == [name for name in found if name not in left_out]


@pytest.mark.parametrize("tied", [True, False])
def test_the_parameters_are_known_by_name_without_the_model(tied: bool) -> None:
    model = small_model(tie_embeddings=tied)
    assert model.config.parameter_names() == [name for name, _ in model.named_parameters()]


def test_a_tied_head_takes_gradients_from_both_uses() -> None:
    tied, untied = small_model(tie_embeddings=True), small_model()
    assert untied.head is not None
    untied.head.load_state_dict(tied.embed.state_dict())
    tokens = torch.arange(16).expand(2, 16)
    for model in (tied, untied):
        model(tokens, tokens.roll(-1, 1)).backward()
    uses = [weight.grad for weight in (untied.embed.weight, untied.head.weight)]
    assert all(use is not None and use.abs().max() > 1e-3 for use in uses)
    torch.testing.assert_close(tied.embed.weight.grad, sum(uses))


def test_no_position_sees_the_future() -> None:
    model = small_model().eval()
    tokens = torch.randint(64, (1, 16), generator=torch.Generator().manual_seed(0))
    changed = tokens.clone()
    changed[0, 10] = (changed[0, 10] + 1) % 64
    before, after = model.logits(tokens), model.logits(changed)
    assert torch.equal(before[0, :10], after[0, :10])
    assert not torch.equal(before[0, 10:], after[0, 10:])


def test_rotated_products_depend_on_the_distance_only() -> None:
    model = small_model()
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(8, generator=generator), torch.randn(8, generator=generator)
    q_TE, k_TE = (rotate(one.expand(1, 16, 1, 8), model.cos_TP, model.sin_TP)[0, :, 0] for one in (q, k))
    scores = q_TE @ k_TE.T
    for distance in range(-15, 16):
        diagonal = scores.diagonal(distance)
        assert torch.allclose(diagonal, diagonal[0].expand_as(diagonal), atol=1e-5)
    assert scores.diagonal(0)[0] == pytest.approx(float(q @ k), abs=1e-5)
    assert abs(scores.diagonal(3)[0] - scores.diagonal(0)[0]) > 1e-3


def test_gated_silu_has_the_gradient_that_it_should() -> None:
    generator = torch.Generator().manual_seed(0)
    gate_up = 3 * torch.randn(2, 5, 14, generator=generator, dtype=torch.float64)
    assert torch.autograd.gradcheck(GatedSiLU.apply, gate_up.requires_grad_())
    half = gate_up.detach().bfloat16().requires_grad_()
    gate, up = half.double().chunk(2, dim=-1)
    [expected] = torch.autograd.grad((torch.nn.functional.silu(gate) * up).sum(), half)
    [found] = torch.autograd.grad(GatedSiLU.apply(half).sum(), half)
    torch.testing.assert_close(found, expected, rtol=2**-8, atol=0)  # one rounding to bf16


def test_dropout_is_that_of_one_micro_step_of_one_rank() -> None:
    """Drawn again it is the same, as a resume needs it; and no two of a run are."""
    model = small_model(dropout=0.1)
    tokens = torch.arange(16).expand(2, 16)

    def loss(*key: int) -> Any:
        seed_dropout(torch.device("cpu"), *key)
        return model(tokens, tokens).item()

    keys = [(7, 3, 1, 2), (8, 3, 1, 2), (7, 4, 1, 2), (7, 3, 2, 2), (7, 3, 1, 3), (7, 3, 2, 1)]
    losses = [loss(*key) for key in keys]
    assert len(set(losses)) == len(keys)
    assert [loss(*key) for key in reversed(keys)] == losses[::-1]
    model.eval()
    assert len({loss(*key) for key in keys}) == 1


def test_ignored_targets_add_nothing() -> None:
    model = small_model().eval()
    tokens = torch.arange(16).expand(2, 16)
    targets = torch.roll(tokens, -1, dims=1).clone()
    half = targets.clone()
    half[1] = IGNORED
    assert torch.allclose(model(tokens, half), model(tokens[:1], targets[:1]))


def test_first_values_depend_on_name_and_seed_only() -> None:
    model = Llama(LlamaConfig(**SMALL))
    shape = torch.Size((32, 48))
    value = model.initial_value("blocks.0.mlp.down.weight", shape, seed=1)
    torch.manual_seed(99)
    assert torch.equal(value, model.initial_value("blocks.0.mlp.down.weight", shape, seed=1))
    assert not torch.equal(value, model.initial_value("blocks.1.mlp.down.weight", shape, seed=1))
    assert not torch.equal(value, model.initial_value("blocks.0.mlp.down.weight", shape, seed=2))
    assert value.std() == pytest.approx(0.02 / math.sqrt(4), rel=0.1)


def test_the_learning_rate_is_a_closed_form_of_the_step() -> None:
    optim = OptimConfig(lr=1.0, warmup_steps=4, min_lr_ratio=0.1)
    assert [learning_rate(optim, step, 24) for step in range(4)] == [0.25, 0.5, 0.75, 1.0]
    assert learning_rate(optim, 4, 24) == 1.0
    assert learning_rate(optim, 14, 24) == pytest.approx(0.55)
    assert learning_rate(optim, 24, 24) == pytest.approx(0.1)
    linear = OptimConfig(lr=1.0, schedule="linear", min_lr_ratio=0.0)
    assert [learning_rate(linear, step, 4) for step in range(5)] == [1.0, 0.75, 0.5, 0.25, 0.0]
    assert learning_rate(OptimConfig(lr=1.0, schedule="constant"), 17, 20) == 1.0
    wsd = OptimConfig(lr=1.0, schedule="wsd", warmup_steps=2, decay_ratio=0.5, min_lr_ratio=0.0)
    assert [learning_rate(wsd, step, 8) for step in range(9)] == [0.5, 1, 1, 1, 1, 0.75, 0.5, 0.25, 0]


def test_only_matrices_decay_and_the_state_is_there_from_the_start() -> None:
    model = small_model()
    optimizer = build_optimizer(model, OptimConfig(lr=0.1, weight_decay=0.5))
    assert len(optimizer.state) == len(list(model.parameters()))
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer.step()
    for name, parameter in model.named_parameters():
        factor = 0.95 if parameter.ndim == 2 else 1.0
        assert torch.allclose(parameter, before[name] * factor), name


def test_clipping_scales_to_the_norm_and_reports_the_one_before() -> None:
    model = small_model()
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    expected = 2 * math.sqrt(model.config.num_parameters)
    assert clip_gradients(model, 1.0, torch.tensor(2.0)) == pytest.approx(expected, rel=1e-5)
    total = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
    assert total == pytest.approx(1.0, rel=1e-4)
