"""What a model takes of a rank's memory: said at the start, measured at the end."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from fsdpctl.contract.trainer import TrainerConfig

from .distributed import World
from .model import Decoder
from .parallelize import units_of

MIB = 2**20


def describe(config: TrainerConfig, model: Decoder, optimizer: torch.optim.Optimizer) -> Iterator[str]:
    """What was wrapped, and what this rank holds all the time; gathered units and activations come on top."""
    units = units_of(model, config.mesh.blocks_per_unit)
    in_units = [_count(block.parameters() for block in unit) for unit in units]
    total = _count([model.parameters()])
    if units:
        size = len(units[0])
        blocks = f"{size} block{'s' if size > 1 else ''}"
        rest = total - sum(in_units)
        yield f"units: {len(units)} of {blocks} ({in_units[0]:,} parameters each) + the rest ({rest:,})"
    trained = [p for p in model.parameters() if p.requires_grad]
    yield f"parameters: {total:,}, of which {total - _count([trained]):,} frozen"
    state = [value for values in optimizer.state.values() for value in values.values()]
    where = " in the host's memory" if config.memory.cpu_offload else ""
    yield (
        f"a rank holds: weights {_local_mib(model.parameters()):.2f} MiB, gradients {_local_mib(trained):.2f} MiB, "
        f"optimizer {_local_mib(state):.2f} MiB{where}"
    )


def peak_memory_gib(world: World) -> float:
    """The most that any rank has used so far: of its GPU, or of the host where there is none. Collective."""
    if world.device.type == "cuda":
        peak = torch.cuda.max_memory_allocated(world.device)
    else:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return world.maximum(peak // MIB) / 1024


def _count(groups: Iterable[Iterable[nn.Parameter]]) -> int:
    return sum(parameter.numel() for group in groups for parameter in group)


def _local_mib(tensors: Iterable[Tensor]) -> float:
    local = (tensor.to_local() if isinstance(tensor, DTensor) else tensor for tensor in tensors)
    return sum(tensor.numel() * tensor.element_size() for tensor in local) / MIB
