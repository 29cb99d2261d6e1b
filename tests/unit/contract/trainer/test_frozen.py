from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract.trainer.frozen import resolve_frozen
from fsdpctl.contract.trainer.llama.config import LlamaConfig

MODEL = LlamaConfig(vocab_size=128, d_model=32, layers=12, heads=2, kv_heads=1, head_dim=16, ffn=64, seq_len=32)
BLOCK = ("attention_norm", "attention.qkv", "attention.out", "mlp_norm", "mlp.gate_up", "mlp.down")


@pytest.mark.parametrize(
    ("patterns", "frozen"),
    [
        ((), set()),
        (("embed.weight", "h*"), {"embed.weight", "head.weight"}),
        (("blocks.3.*",), {f"blocks.3.{part}.weight" for part in BLOCK}),
        (
            ("blocks.[01].*norm*", "norm.weight"),
            {"norm.weight"} | {f"blocks.{n}.{p}_norm.weight" for n in (0, 1) for p in ("attention", "mlp")},
        ),
        (("*.qkv.weight",), {f"blocks.{n}.attention.qkv.weight" for n in range(12)}),
    ],
)
def test_patterns_choose_parameters(patterns: tuple[str, ...], frozen: set[str]) -> None:
    assert resolve_frozen(patterns, MODEL) == frozen


@pytest.mark.parametrize(
    ("pattern", "near"),
    [
        ("block.0.*", "did you mean blocks.0.*?"),
        ("blocks.12.*", "did you mean blocks.11.*?"),
        ("blocks.4.attn.qkv.weight", "did you mean blocks.4.attention.qkv.weight?"),
        ("embed", "did you mean embed.weight?"),
        ("head", "did you mean head.weight?"),
        ("mlp.*", "did you mean blocks.11.mlp.*?"),
    ],
)
def test_a_pattern_that_matches_nothing_is_refused_with_a_near_one(pattern: str, near: str) -> None:
    known = (
        "there are embed.weight, norm.weight, head.weight and, in each of blocks.0 to blocks.11, attention_norm.weight"
    )
    with pytest.raises(ValueError) as caught:
        resolve_frozen(("norm.weight", pattern), MODEL)
    assert str(caught.value).startswith(f"optim.frozen: no parameter matches {pattern!r}; {near} {known}, ")


@pytest.mark.parametrize(
    "pattern", ["", "zzz", "blocks.99999999999999999999999999999999999999999999999999999999999999"]
)
def test_what_is_near_to_nothing_names_what_there_is(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"there are embed\.weight, norm\.weight, head\.weight and"):
        resolve_frozen((pattern,), MODEL)


def test_a_tied_head_is_no_parameter_of_its_own() -> None:
    tied = replace(MODEL, tie_embeddings=True)
    with pytest.raises(ValueError, match=r"there are embed\.weight, norm\.weight and, in each"):
        resolve_frozen(("head.weight",), tied)


@pytest.mark.parametrize("patterns", [("*",), ("embed.*", "blocks.*", "norm.*", "head.*")])
def test_something_is_left_to_train(patterns: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match=r"^optim\.frozen: nothing is left to train"):
        resolve_frozen(patterns, MODEL)
