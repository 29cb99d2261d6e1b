from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fsdpctl.contract.codec import decode, encode
from fsdpctl.contract.trainer.float8 import Float8Config, resolve_float8
from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.specs.load import load_job

MODEL = LlamaConfig(vocab_size=256, d_model=32, layers=2, heads=2, kv_heads=1, head_dim=16, ffn=64, seq_len=32)
BLOCK = ("attention.qkv", "attention.out", "mlp.gate_up", "mlp.down")
BLOCKS = {f"blocks.{n}.{part}" for n in (0, 1) for part in BLOCK}


@pytest.mark.parametrize(
    ("patterns", "layers"),
    [
        (Float8Config().layers, BLOCKS),
        (("*",), BLOCKS | {"head"}),
        (("blocks.1.mlp.*", "head"), {"blocks.1.mlp.gate_up", "blocks.1.mlp.down", "head"}),
    ],
)
def test_patterns_choose_linear_layers(patterns: tuple[str, ...], layers: set[str]) -> None:
    assert resolve_float8(Float8Config(layers=patterns), MODEL) == layers


@pytest.mark.slow  # imports torch
def test_shapes_are_those_of_the_model() -> None:
    torch = pytest.importorskip("torch")
    from train.model import table

    for tied in (False, True):
        model = replace(MODEL, tie_embeddings=tied)
        with torch.device("meta"):
            modules = table.build(model).named_modules()
            found = {name: tuple(m.weight.shape) for name, m in modules if isinstance(m, torch.nn.Linear)}
        assert model.linear_shapes() == found


@pytest.mark.parametrize(
    ("model", "layers", "text"),
    [
        ({}, ("layers.*",), "no linear layer matches 'layers.*'; there are blocks.1.attention.qkv, "),
        ({"tie_embeddings": True}, ("head",), "no linear layer matches 'head'"),
        ({}, ("blocks.0.mlp_norm",), "no linear layer matches 'blocks.0.mlp_norm'"),
        ({"ffn": 70}, ("*.down",), "blocks.0.mlp.down is 32 x 70: both sides of a matrix in float8 must be multiples"),
    ],
)
def test_what_cannot_be_in_float8_is_refused(model: dict[str, Any], layers: tuple[str, ...], text: str) -> None:
    with pytest.raises(ValueError, match=r"^float8\.layers: ") as refused:
        resolve_float8(Float8Config(layers=layers), replace(MODEL, **model))
    assert text in str(refused.value)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ({"precision": "bf16", "float8": {"recipe": "rowwise"}}, "float8 does nothing without precision: float8"),
        ({"float8": {"recipe": "rowwise", "gather": True}}, "gather needs the recipe tensorwise"),
        ({"float8": {"gather": True}, "mesh": {"strategy": "DDP"}}, "DDP gathers nothing"),
        ({"float8": {"gather": True}, "memory": {"cpu_offload": True}}, "weights are gathered in bf16"),
        ({"float8": {"layers": []}}, "layers must hold at least one pattern"),
        ({"float8": {"layers": ["lm_head"]}}, "no linear layer matches 'lm_head'"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(keys: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        decode(TrainerConfig, {**encode(load_job("llm-tiny").trainer), "precision": "float8", **keys})


@pytest.mark.parametrize(
    ("float8", "shards", "gathers"),
    [
        (Float8Config(), 4, False),  # measured over NVLink: a step is no shorter, and takes more memory
        (Float8Config(), 2, False),
        (Float8Config(), 8, True),
        (Float8Config(), 3, True),  # some groups of three are on two nodes
        (Float8Config(gather=True), 4, True),
        (Float8Config(gather=True), 1, False),
        (Float8Config(gather=False), 8, False),
        (Float8Config(recipe="rowwise"), 8, False),
    ],
)
def test_weights_are_gathered_in_float8_between_nodes(float8: Float8Config, shards: int, gathers: bool) -> None:
    assert float8.gathers(shards, ranks_per_node=4) is gathers
