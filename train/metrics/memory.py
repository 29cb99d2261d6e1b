"""The memory of a rank: what the model needs, logged at the start, and the peak, measured at the end."""

from __future__ import annotations

import resource
from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule

from fsdpctl.contract.trainer.trainer_config import TrainerConfig
from fsdpctl.contract.trainer.units import ROOT, Unit, owning_units, resolve_units
from train.parallel.world import World
from train.shards import local_part

MIB, GIB = 2**20, 2**30


def describe(config: TrainerConfig, model: nn.Module, optimizer: torch.optim.Optimizer) -> Iterator[str]:
    """Yield lines on what was wrapped, and what this rank always holds, without gathered units and activations."""
    total = _count(model.parameters())
    if isinstance(model, FSDPModule):
        yield f"units: {_describe_units(model, resolve_units(config.mesh.units, config.model))}"
    trained = [p for p in model.parameters() if p.requires_grad]
    yield f"parameters: {total:,}, of which {total - _count(trained):,} frozen"
    state = [value for values in optimizer.state.values() for value in values.values()]
    where = " in the host's memory" if config.memory.cpu_offload else ""
    yield (
        f"a rank holds: weights {_local_mib(model.parameters()):.2f} MiB, gradients {_local_mib(trained):.2f} MiB, "
        f"optimizer {_local_mib(state):.2f} MiB{where}"
    )


class GpuPeaks:
    """The most that this rank has allocated on its GPU, by step and so far; torch counts from the last reset only."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.before = 0  # the most until the last reset

    def take_step(self) -> int | None:
        """Return the most since the last call, in bytes; None without a GPU."""
        if self.device.type != "cuda":
            return None
        peak = torch.cuda.max_memory_allocated(self.device)
        torch.cuda.reset_peak_memory_stats(self.device)
        self.before = max(self.before, peak)
        return peak

    def highest(self) -> int | None:
        """Return the most of the whole attempt, in bytes; None without a GPU."""
        if self.device.type != "cuda":
            return None
        return max(self.before, torch.cuda.max_memory_allocated(self.device))


def peak_memory_gib(world: World, gpu_peaks: GpuPeaks) -> float:
    """Return the most that any rank has used so far, of its GPU, or of the host where there is none. Collective."""
    peak = gpu_peaks.highest()
    if peak is None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return world.maximum(peak // MIB) / 1024


def _describe_units(model: nn.Module, units: Sequence[Unit]) -> str:
    """Describe number and size of the units, equal ones together: the whole unit, and its part on this rank."""
    held: dict[Unit, list[nn.Parameter]] = {unit: [] for unit in (*units, ROOT)}
    named = dict(model.named_parameters())
    for name, unit in owning_units(named, units).items():
        held[unit].append(named[name])
    alike: dict[tuple[int, int], list[Unit]] = {}
    for unit, parameters in held.items():
        alike.setdefault((_count(parameters), _count(map(local_part, parameters))), []).append(unit)
    return ", ".join(
        f"{len(group)} of {whole:,} parameters, {local:,} on this rank ({_names(group)})"
        for (whole, local), group in alike.items()
        if whole
    )


def _names(group: Sequence[Unit]) -> str:
    first = " + ".join(group[0]) or "the rest"
    return f"{first}, ..." if len(group) > 1 else first


def _count(tensors: Iterable[Tensor]) -> int:
    return sum(tensor.numel() for tensor in tensors)


def _local_mib(tensors: Iterable[Tensor]) -> float:
    return sum(tensor.numel() * tensor.element_size() for tensor in map(local_part, tensors)) / MIB
