"""Matrix products in float8, by torchao: its layers replace linear layers, and keep their names and fp32 weights.

With `float8.gather` FSDP casts each shard before it gathers it, a quarter of the bytes of fp32. Its scale is that of
the whole matrix: one reduction for all of them, after each update of the weights.
"""

from __future__ import annotations

import logging
import warnings
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from fsdpctl.contract.trainer.float8 import resolve_float8
from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.contract.trainer.units import Unit, owning_units
from train.errors import ConfigError
from train.parallel.world import World
from train.shards import sharded_as

log = logging.getLogger(__name__)

FIRST_CAPABILITY = (8, 9)
"""Compute capability of the first GPUs whose tensor cores multiply float8."""


def convert_layers(model: nn.Module, config: TrainerConfig, world: World, shards: int, units: tuple[Unit, ...]) -> None:
    """Replace the chosen linear layers. `shards`: the ranks over which FSDP divides a weight, 1 without FSDP.

    Raises ConfigError without torchao, and on a GPU that cannot.
    """
    device = world.device
    if device.type == "cuda":
        require_float8(device)
    gathers = config.float8.gathers(shards, world.rank_info.local_world_size) and not config.memory.cpu_offload
    chosen = resolve_float8(config.float8, config.model)
    beside_others = _beside_others(model, units, chosen)
    in_float8 = 0
    for name in sorted(chosen):
        layer = model.get_submodule(name)
        assert isinstance(layer, nn.Linear)
        even = layer.out_features % shards == 0  # FSDP gathers no float8 that it had to pad
        gathered = gathers and even and name in beside_others
        in_float8 += gathered
        emulate = device.type != "cuda"
        model.set_submodule(name, convert(layer, config.float8.recipe, gathers=gathered, emulate=emulate))
    how = f"{in_float8} of them gathered in float8" if in_float8 else "none gathered in it"
    log.info("float8: %s products in %d layers, %s", config.float8.recipe, len(chosen), how)
    if device.type != "cuda":
        # torchao's layer asks for the data type of autocast on GPUs, whatever its device is.
        torch.set_autocast_dtype("cuda", torch.bfloat16)


def _beside_others(model: nn.Module, units: tuple[Unit, ...], chosen: frozenset[str]) -> set[str]:
    """Return the layers whose unit has other weights, too: FSDP sends such a unit as bytes.

    One of float8 alone it would send as float8, a type that gloo does not have, nor every NCCL.
    """
    owners = owning_units(dict(model.named_parameters()), units)
    weights = {f"{name}.weight": name for name in chosen}
    mixed = {unit for parameter, unit in owners.items() if parameter not in weights}
    return {name for weight, name in weights.items() if owners[weight] in mixed}


def compute_scales(model: nn.Module) -> None:
    """Compute the scales of all weights that are gathered in float8, after they have changed. Collective."""
    if any(_wrapped(parameter) is not None for parameter in model.parameters()):
        from torchao.float8 import precompute_float8_dynamic_scale_for_fsdp

        precompute_float8_dynamic_scale_for_fsdp(model)


def master_weight(parameter: Tensor) -> Tensor:
    """Return a parameter's fp32 values, without the wrapper by which FSDP gathers it in float8. They share memory."""
    values = _wrapped(parameter)
    if values is not None:
        return sharded_as(parameter, values.detach())
    # A graph may hold a parameter that is no DTensor; `data` can be filled without autograd refusing its backward pass.
    return parameter.detach() if isinstance(parameter, DTensor) else parameter.data


def _wrapped(parameter: Tensor) -> Tensor | None:
    """Return the values inside of torchao's WeightWithDynamicFloat8CastTensor; None where there is none."""
    local = parameter._local_tensor if isinstance(parameter, DTensor) else parameter
    return getattr(local, "_tensor", None)


def convert(layer: nn.Linear, recipe: str, *, gathers: bool, emulate: bool) -> nn.Module:
    """Return torchao's layer with the weight of this one. Raises ConfigError without torchao."""
    logging.getLogger("torchao").setLevel(logging.ERROR)  # it warns of each of its kernels that it cannot load
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from torchao.float8 import Float8LinearConfig, convert_to_float8_training
        except ImportError as error:
            text = f"precision float8 needs torchao, which cannot be imported ({error})"
            raise ConfigError(f"{text}: pip install 'fsdpctl[float8]' in the Python of the nodes") from None
    config = Float8LinearConfig.from_recipe_name(recipe)
    config = replace(config, enable_fsdp_float8_all_gather=gathers, emulate=emulate)
    converted: nn.Module = convert_to_float8_training(layer, config=config)
    return converted


def require_float8(device: torch.device) -> None:
    """Raise ConfigError for a GPU whose tensor cores multiply no float8."""
    if torch.version.hip is None and torch.cuda.get_device_capability(device) < FIRST_CAPABILITY:
        name, needed = torch.cuda.get_device_name(device), ".".join(map(str, FIRST_CAPABILITY))
        text = f"precision float8: a {name} multiplies no float8, which begins with compute capability {needed}"
        raise ConfigError(f"{text} (L4, L40S, RTX 4090, H100); use bf16")
