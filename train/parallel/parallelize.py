"""Builds a model from its configuration, and shards it over the ranks.

The order matters: build on the meta device (no rank ever holds what it does not own), compile what is inside of FSDP's
units before FSDP wraps them (its hooks stay outside of the graphs), shard, and only then allocate memory. Values come
from a checkpoint, or are drawn where there is none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed._composable import replicate_with_fsdp
from torch.distributed._composable.replicate import DDP, replicate
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard

from fsdpctl.contract.trainer.frozen import resolve_frozen
from fsdpctl.contract.trainer.trainer_config import Precision, TrainerConfig
from fsdpctl.contract.trainer.units import Unit, has_units_inside_blocks, resolve_units
from train.model import table
from train.model.language_model import LanguageModel
from train.parallel import float8
from train.parallel.saved_graph import SavedGraph, graph_file_name
from train.parallel.world import World

log = logging.getLogger(__name__)

Forward = Callable[..., Tensor]

COMPILER: dict[str, Any] = {
    "online_softmax": False  # the loss reads a row twice, from the cache, sooner than it rescales its sum on the way
}


def build_model(
    config: TrainerConfig,
    world: World,
    shape: tuple[int, int],
    timed: Callable[[Forward], Forward],
    graphs_dir: Path | None = None,
) -> LanguageModel:
    """Return the model on its device, sharded over a mesh of `shape` (replicate, shard), still without values.

    `timed` wraps the part of the forward pass in which no rank waits for another. `graphs_dir`: where compiled graphs
    are saved.
    """
    with torch.device("meta"):
        model = table.build(config.model)
    for name in resolve_frozen(config.optim.frozen, config.model):
        model.get_parameter(name).requires_grad_(False)
    for block in model.block_list()[:: config.memory.recompute_every]:
        block.recompute = config.memory.recompute
    dtype = compute_dtype(config.precision, world.device)
    uses_fsdp = config.mesh.strategy != "DDP" and (world.size > 1 or config.memory.cpu_offload)
    units = resolve_units(config.mesh.units, config.model) if uses_fsdp else ()
    if config.precision == "float8":
        float8.convert_layers(model, config, world, shape[1] if uses_fsdp else 1, units)
    if uses_compiler(config, world.device):
        apply_compile(model, units, _graph_path(config, world, graphs_dir, uses_fsdp=uses_fsdp))
    local_part = find_local_compute(units, model.HEAD_MODULES)
    setattr(model, local_part, timed(getattr(model, local_part)))
    if uses_fsdp:
        apply_fsdp(model, config, units, _build_mesh(world.device.type, *shape), dtype)
    elif dtype != torch.float32:
        model.autocast_dtype = dtype
    model.to_empty(device="cpu" if config.memory.cpu_offload else world.device)
    model.fill_buffers(world.device)
    if world.size > 1 and not uses_fsdp:
        # All ranks get equal values, from the seed or a checkpoint. DDP would broadcast rank 0's in its first forward
        # pass, which may be beside the reading of a checkpoint.
        replicate(model, device_id=world.device, init_sync=False)
    return model


def _graph_path(config: TrainerConfig, world: World, graphs_dir: Path | None, *, uses_fsdp: bool) -> Path | None:
    """Return where the graph of a step is saved; None where it is not.

    A saved graph is a whole one: DDP divides it by its buckets, to reduce gradients during the backward pass. Float8
    weights have attributes that differ from step to step, and no saved guard was seen to compare them.
    """
    saves = (uses_fsdp or world.size == 1) and config.precision != "float8"
    return graphs_dir / graph_file_name(config, world.device) if saves and graphs_dir is not None else None


def uses_compiler(config: TrainerConfig, device: torch.device) -> bool:
    """Return whether the model is compiled: by default on GPUs."""
    return config.compile or (config.compile is None and device.type == "cuda")


def compute_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the configured precision; by default bf16 over fp32 weights on GPUs, and fp32 on CPUs."""
    if precision == "auto":
        if device.type != "cuda":
            return torch.float32
        return torch.bfloat16 if has_bf16(device) else torch.float16
    return {"bf16": torch.bfloat16, "float8": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}[precision]


def has_bf16(device: torch.device) -> bool:
    """Return whether a GPU computes in bf16; torch emulates it, very slowly, on those before compute capability 8."""
    return torch.version.hip is not None or torch.cuda.get_device_capability(device) >= (8, 0)


def find_local_compute(units: tuple[Unit, ...], head_modules: tuple[str, ...]) -> str:
    """Return the method of the model that is the largest part of the forward pass in which no unit begins.

    In it no rank waits for another: not in a collective, since nothing is gathered.
    """
    if not units:
        return "body"
    return "token_loss" if any((name,) in units for name in head_modules) else "head_loss"


def apply_compile(model: LanguageModel, units: tuple[Unit, ...], graph_path: Path | None) -> None:
    """Compile everything from embedding to loss into one graph, the fastest form, which is saved at `graph_path`.

    Where FSDP's hooks are between the blocks or in them: each of the largest parts without a hook inside, and the loss.
    """
    # What the compiler cannot take runs eagerly; a slow run is better than none.
    torch._dynamo.config.suppress_errors = True
    # Else its cache takes no graph with a custom gradient (GatedSiLU), and each start derives all gradients again.
    torch._functorch.config.autograd_cache_allow_custom_autograd_functions = True
    if not units:
        if graph_path is not None:
            model.body = SavedGraph(model, graph_path, COMPILER)
        else:
            model.body = torch.compile(model.body, dynamic=False, options=COMPILER)
        return
    parts = list(model.blocks)
    if has_units_inside_blocks(units):
        parts = [model.get_submodule(name) for unit in units for name in unit]
    for module in (*(part for part in parts if not _holds_another(part, parts)), model.loss):
        module.compile(dynamic=False, options=COMPILER)


def _holds_another(module: nn.Module, others: Iterable[nn.Module]) -> bool:
    return any(inner in others for inner in module.modules() if inner is not module)


def apply_fsdp(
    model: LanguageModel, config: TrainerConfig, units: tuple[Unit, ...], mesh: DeviceMesh, dtype: torch.dtype
) -> None:
    """Wrap each unit, those inside of others first, and then the root with what no unit holds.

    By default that is embedding, last norm and head, so that a tied head is in one group with its embedding: torch 2.13
    refuses it in two.
    """
    reduce_dtype = torch.bfloat16 if config.reduce_dtype == "bf16" else torch.float32
    # Inputs stay as they are: the blocks' own are in `dtype` already, and the rotary tables need their precision.
    policy = MixedPrecisionPolicy(param_dtype=dtype, reduce_dtype=reduce_dtype, cast_forward_inputs=False)
    options: dict[str, Any] = {"mesh": mesh, "mp_policy": policy}
    if config.memory.cpu_offload:
        options["offload_policy"] = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda")
    if mesh.mesh_dim_names == ("replicate",):
        wrap: Any = replicate_with_fsdp.replicate
    else:
        wrap = fully_shard
        options["reshard_after_forward"] = (
            None if config.mesh.reshards_after_forward else False
        )  # None: all but the root
    modules = [[model.get_submodule(name) for name in unit] for unit in units]
    for unit in modules[::-1]:  # a module comes before what is in it
        wrap(unit if len(unit) > 1 else unit[0], **options)
    wrap(model, **options)
    if config.mesh.prefetch:
        _prefetch([unit[0] for unit in modules], config.mesh.prefetch)


def _prefetch(units: list[Any], depth: int) -> None:
    """Gather up to `depth` units ahead of the one at work, in both directions."""
    for i, unit in enumerate(units):
        unit.set_modules_to_forward_prefetch(units[i + 1 : i + 1 + depth])
        unit.set_modules_to_backward_prefetch(units[max(0, i - depth) : i][::-1])


def _build_mesh(device_type: str, num_replicas: int, num_shards: int) -> DeviceMesh:
    # torch's HSDP went wrong on meshes with a dimension of size 1 (pytorch #154888, #159978).
    if num_shards == 1:
        return init_device_mesh(device_type, (num_replicas,), mesh_dim_names=("replicate",))
    if num_replicas == 1:
        return init_device_mesh(device_type, (num_shards,), mesh_dim_names=("shard",))
    return init_device_mesh(device_type, (num_replicas, num_shards), mesh_dim_names=("replicate", "shard"))


def set_gradient_sync(model: nn.Module, last_micro_step: bool) -> None:
    """Reduce gradients over the ranks in the last micro-step of a step only."""
    if isinstance(model, FSDPModule | DDP):
        model.set_requires_gradient_sync(last_micro_step)
    if isinstance(model, FSDPModule):
        model.set_is_last_backward(last_micro_step)


def release_gathered(model: nn.Module) -> None:
    """Free the gathered parameters after a forward pass that no backward pass followed."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()
