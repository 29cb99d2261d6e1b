"""A model in numbers: its parameters by name, those of each FSDP unit, and the floating-point operations of a token.

d: width, L: layers, H and K: query and key/value heads, E: head width, F: width of the SwiGLU, V: vocabulary, T:
positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

from fsdpctl.contract.trainer.float8 import resolve_float8
from fsdpctl.contract.trainer.frozen import resolve_frozen
from fsdpctl.contract.trainer.model_config import ModelConfig
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.contract.trainer.units import ROOT, UnitsConfig, owning_units, resolve_units


@dataclass(frozen=True)
class Units:
    """Parameters by the collectives that gather them."""

    sizes: tuple[int, ...]  # in the order of the forward pass
    root: int  # what no unit holds; it stays gathered from the forward to the backward pass

    @property
    def largest(self) -> int:
        return max(self.sizes, default=0)


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one token, forward and backward, without what is computed again."""

    matrices: int  # 6 for each parameter of a matrix that every token is multiplied with
    attention: int  # with a causal mask, so half of the square

    @property
    def total(self) -> int:
        return self.matrices + self.attention


@dataclass(frozen=True)
class Float8:
    """The layers that multiply in float8."""

    parameters: int = 0
    casts: int = 0  # values of each token that are cast: a layer's input, and the gradient of its output
    all_blocks: bool = False  # with all layers of the blocks


@dataclass(frozen=True)
class ModelSizes:
    config: TrainerConfig

    @property
    def model(self) -> ModelConfig:
        return self.config.model

    @property
    def parameters(self) -> int:
        return self.model.num_parameters

    @property
    def head(self) -> int:
        """Parameters of the matrix that gives the logits."""
        return self.model.vocab_size * self.model.d_model

    @property
    def multiplied(self) -> int:
        """Parameters that are used in compute precision: an embedding of its own is only looked up."""
        return self.parameters - (0 if self.model.tie_embeddings else self.head)

    @cached_property
    def trained(self) -> int:
        frozen = resolve_frozen(self.config.optim.frozen, self.model)
        return self.parameters - sum(parameters_of(self.model)[name] for name in frozen)

    @cached_property
    def float8(self) -> Float8:
        """The layers that multiply in float8."""
        if self.config.precision != "float8":
            return Float8()
        shapes = self.model.linear_shapes()
        chosen = [shapes[name] for name in resolve_float8(self.config.float8, self.model)]
        parameters = sum(rows * columns for rows, columns in chosen)
        return Float8(parameters, sum(map(sum, chosen)), parameters >= sum(map(math.prod, shapes.values())) - self.head)

    @property
    def units(self) -> Units:
        """FSDP's units; a parameter belongs to the innermost one."""
        return _units_of(self.config.mesh.units, self.model)

    @cached_property
    def flops(self) -> Flops:
        return Flops(self.model.matrix_flops, self.model.attention_flops)


@lru_cache
def parameters_of(model: ModelConfig) -> Mapping[str, int]:
    """Return the number of elements of each parameter, by its name."""
    return {name: _size(name, model) for name in model.parameter_names()}


@lru_cache
def _units_of(config: UnitsConfig, model: ModelConfig) -> Units:
    units, sizes = resolve_units(config, model), parameters_of(model)
    held = dict.fromkeys((*units, ROOT), 0)
    for name, unit in owning_units(sizes, units).items():
        held[unit] += sizes[name]
    root = held.pop(ROOT)
    return Units(tuple(held.values()), root)


def _size(name: str, model: ModelConfig) -> int:
    """Return the number of elements of one parameter of a Llama."""
    d, head_dim = model.d_model, model.head_dim
    part = name.removesuffix(".weight").partition("blocks.")[2].partition(".")[2] or name.removesuffix(".weight")
    return {
        "embed": model.vocab_size * d,
        "head": model.vocab_size * d,
        "norm": d,
        "attention_norm": d,
        "mlp_norm": d,
        "attention.qkv": d * head_dim * (model.heads + 2 * model.kv_heads),
        "attention.out": d * head_dim * model.heads,
        "mlp.gate_up": 2 * d * model.ffn,
        "mlp.down": d * model.ffn,
    }[part]
