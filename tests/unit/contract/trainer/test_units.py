from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.units import (
    ROOT,
    Unit,
    UnitsConfig,
    has_units_inside_blocks,
    owning_units,
    resolve_units,
)

MODEL = LlamaConfig(vocab_size=128, d_model=32, layers=3, heads=2, kv_heads=1, head_dim=16, ffn=64, seq_len=32)
B0, B1, B2 = "blocks.0", "blocks.1", "blocks.2"


@pytest.mark.parametrize(
    ("given", "units"),
    [
        ({}, ((B0,), (B1,), (B2,))),
        ({"blocks": 2}, ((B0, B1), (B2,))),
        ({"blocks": 9}, ((B0, B1, B2),)),
        ({"blocks": 0}, ()),
        ({"parameters": 1}, ((B0,), (B1,), (B2,))),
        ({"parameters": 9_280}, ((B0,), (B1,), (B2,))),
        ({"parameters": 9_281}, ((B0, B1), (B2,))),
        ({"names": ("blocks.*",)}, ((B0,), (B1,), (B2,))),
        ({"names": ("head", "blocks.[02]", "embed")}, (("embed",), (B0,), (B2,), ("head",))),
        ({"names": ("blocks.1*", "*.1.mlp")}, ((B1,), ("blocks.1.mlp",))),
        ({"names": ("blocks.2.attention.*",)}, (("blocks.2.attention.qkv",), ("blocks.2.attention.out",))),
    ],
)
def test_units_are_named_in_the_order_of_the_model(given: dict[str, Any], units: tuple[Unit, ...]) -> None:
    assert resolve_units(UnitsConfig(**given), MODEL) == units


def test_units_inside_of_blocks_are_known() -> None:
    assert has_units_inside_blocks(((B0,), ("blocks.1.mlp",)))
    assert not has_units_inside_blocks(((B0, B1), ("embed",)))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ({"blocks": 2, "names": ("head",)}, "one of them"),
        ({"blocks": 0, "parameters": 9}, "one of them"),
        ({"blocks": -1}, "at least 0"),
        ({"parameters": 0}, "at least 1"),
        (
            {"names": ("head", "block.*")},
            r"no module is called 'block\.\*'; there are embed, norm, head, blocks\.N and",
        ),
        ({"names": ("blocks",)}, "no module is called 'blocks'"),
        ({"names": ("blocks.3",)}, "no module is called"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        resolve_units(UnitsConfig(**given), MODEL)


def test_a_tied_embedding_is_no_unit() -> None:
    tied = replace(MODEL, tie_embeddings=True)
    for pattern in ("embed", "head", "*d"):
        reason = rf"'{re.escape(pattern)}' cannot be a unit: embed and head share one weight \(tie_embeddings\)"
        with pytest.raises(ValueError, match=reason):
            resolve_units(UnitsConfig(names=("norm", pattern)), tied)
    with pytest.raises(ValueError, match="no module is called 'embedding'; there are norm, blocks"):
        resolve_units(UnitsConfig(names=("embedding",)), tied)


def test_a_parameter_belongs_to_the_smallest_module_in_a_unit() -> None:
    names = ("embed.weight", "blocks.0.mlp.down.weight", "blocks.0.mlp_norm.weight", "blocks.1.mlp.down.weight")
    units = (("blocks.0",), ("blocks.0.mlp",))
    assert list(owning_units(names, units).values()) == [ROOT, ("blocks.0.mlp",), ("blocks.0",), ROOT]
