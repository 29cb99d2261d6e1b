"""Activations beside the formulas of Korthikanti et al., 2022, where they apply: s b h (34 + 5 a s / h) bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.estimate.activations import Tokens, kept_in_all, of_documents
from tests.unit.estimate.jobs import llama, trainer

WIDTH = 4096
MODEL = llama(32000, WIDTH, 32, 32, 32, 8 * WIDTH // 3)
D, F = MODEL.d_model, MODEL.ffn
EAGER, COMPILED = (Tokens(MODEL, compiled=compiled, half=2) for compiled in (False, True))


def test_full_recomputing_keeps_2_s_b_h() -> None:
    assert EAGER.kept("full") == 2 * WIDTH


def test_without_recomputing_a_block_keeps_about_34_s_b_h() -> None:
    """The square of attention is not kept by a fused kernel, and dropout's masks are not there without dropout."""
    assert EAGER.kept("none") == pytest.approx(34 * WIDTH, rel=0.1)


def test_selective_keeps_less_and_full_least() -> None:
    for tokens in (EAGER, COMPILED):
        assert tokens.kept("full") < tokens.kept("selective") < tokens.kept("none")


def test_float8_keeps_neither_what_is_normalized_nor_the_product() -> None:
    in_float8 = replace(COMPILED, float8=True)
    assert COMPILED.kept("none") - in_float8.kept("none") == 2 * (2 * D + F)
    assert replace(EAGER, float8=True).kept("none") == EAGER.kept("none")


def test_recompute_every_leaves_the_other_blocks_as_they_are() -> None:
    config = replace(trainer("llm7b", "memory.recompute=full", "memory.recompute_every=4"), model=MODEL)
    assert kept_in_all(config, EAGER) == 8 * EAGER.kept("full") + 24 * EAGER.kept("none")


def test_eager_logits_are_there_three_times_in_fp32() -> None:
    assert EAGER.loss_backward(in_one_graph=True) == 3 * 4 * 32000
    assert COMPILED.loss_backward(in_one_graph=True) == 2 * 32000
    assert COMPILED.loss_backward(in_one_graph=False) == 2 * 2 * 32000


def test_limits_of_documents_take_little_beside_activations() -> None:
    config = replace(trainer("llm7b", "data.attention=document"), model=replace(MODEL, seq_len=4096))
    tables, blocks = 4096 * (8 + 4 * 128), 4 * 4 * 32 * 32
    assert of_documents(config, micro_batch=3) == 3 * (tables + blocks)
    assert of_documents(config, 1) < 0.001 * 4096 * kept_in_all(config, COMPILED)
    assert of_documents(trainer("llm7b"), micro_batch=3) == 0
