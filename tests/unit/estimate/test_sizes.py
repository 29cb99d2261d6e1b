"""Parameters and FLOPs beside published ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fsdpctl.contract.trainer.llama.config import LlamaConfig
from fsdpctl.contract.trainer.units import UnitsConfig
from fsdpctl.estimate.sizes import ModelSizes, parameters_of
from tests.unit.estimate.jobs import llama, trainer

PUBLISHED = {  # of transformers' models
    "TinyLlama-1.1B": (llama(32000, 2048, 22, 32, 4, 5632), 1_100_048_384),
    "Llama-3.2-1B": (llama(128256, 2048, 16, 32, 8, 8192, tied=True), 1_235_814_400),
    "Llama-3.2-3B": (llama(128256, 3072, 28, 24, 8, 8192, tied=True), 3_212_749_824),
    "Llama-2-7B": (llama(32000, 4096, 32, 32, 32, 11008), 6_738_415_616),
    "Llama-3-8B": (llama(128256, 4096, 32, 32, 8, 14336), 8_030_261_248),
    "Llama-2-13B": (llama(32000, 5120, 40, 40, 40, 13824), 13_015_864_320),
    "Llama-2-70B": (llama(32000, 8192, 80, 64, 8, 28672), 68_976_648_192),
}


def sizes(model: LlamaConfig, units: UnitsConfig | None = None) -> ModelSizes:
    config = trainer("llm7b")
    mesh = replace(config.mesh, units=units) if units else config.mesh
    return ModelSizes(replace(config, model=model, mesh=mesh))


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name: str) -> None:
    model, parameters = PUBLISHED[name]
    assert sizes(model).parameters == sum(parameters_of(model).values()) == parameters


@pytest.mark.parametrize("name", ["Llama-2-7B", "Llama-2-13B", "Llama-2-70B"])
def test_flops_of_a_large_model_are_6_of_each_parameter(name: str) -> None:
    """Kaplan et al., 2020: 6 N, and an embedding is only looked up."""
    found = sizes(PUBLISHED[name][0])
    assert found.flops.matrices == pytest.approx(6 * found.parameters, rel=0.02)


def test_attention_counts_half_of_the_square() -> None:
    """PaLM's 12 L H E T for both passes, halved for the causal mask."""
    model = PUBLISHED["Llama-2-7B"][0]
    assert sizes(model).flops.attention == 6 * 32 * 4096 * 4096


def test_a_unit_of_a_block_holds_all_of_it_and_the_root_holds_the_rest() -> None:
    units = sizes(PUBLISHED["Llama-2-7B"][0]).units
    assert units.sizes == (202_383_360,) * 32
    assert units.root == 2 * 32000 * 4096 + 4096


def test_a_parameter_belongs_to_the_innermost_unit() -> None:
    model = PUBLISHED["Llama-2-7B"][0]
    units = sizes(model, UnitsConfig(names=("blocks.*", "blocks.*.mlp"))).units
    mlp = 3 * 4096 * 11008
    assert sorted(set(units.sizes)) == sorted({mlp, model.block_parameters - mlp})
    assert sum(units.sizes) + units.root == model.num_parameters


def test_one_unit_is_all_root() -> None:
    units = sizes(PUBLISHED["Llama-2-7B"][0], UnitsConfig(blocks=0)).units
    assert (units.sizes, units.root, units.largest) == ((), 6_738_415_616, 0)


def test_frozen_parameters_are_not_trained() -> None:
    config = trainer("llm7b", "optim.frozen=[embed.*]")
    assert ModelSizes(config).trained == 6_738_415_616 - 32000 * 4096
