"""The three state dicts of a sharded model, by FSDP1's names, and every way from one to another.

    LOCAL      a plain tensor of each rank, its part; loads only on the same mesh         no communication
    SHARDED    a DTensor of each rank: the part, and where it is in the whole             no communication
    FULL       whole tensors on rank 0, as a model without FSDP has them                  gathers every parameter

To convert files without any ranks: `python -m torch.distributed.checkpoint.format_utils dcp_to_torch sharded full.pth`,
and `torch_to_dcp full.pth sharded` back.
"""

from __future__ import annotations

from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
from torch.distributed.tensor import DTensor, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

State = dict[str, Tensor]


def local_state(model: nn.Module) -> State:
    return {name: value.to_local() for name, value in model.state_dict().items()}


def sharded_state(model: nn.Module) -> State:
    return model.state_dict()


def full_state(model: nn.Module) -> State:
    """Return the whole on rank 0, in host memory, and nothing on the others."""
    return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True, cpu_offload=True))


def local_to_sharded(local: State, like: State) -> State:
    """Say of each part where it is: as in `like`, a sharded state of the same mesh."""
    return {
        name: DTensor.from_local(
            part, like[name].device_mesh, like[name].placements, shape=like[name].shape, stride=like[name].stride()
        )
        for name, part in local.items()
    }


def full_to_sharded(full: State, like: State) -> State:
    """Keep this rank's part of each tensor. All ranks have the full state, so nothing is sent."""
    return {
        name: distribute_tensor(
            whole.to(like[name].device), like[name].device_mesh, like[name].placements, src_data_rank=None
        )
        for name, whole in full.items()
    }


def show_state_dicts(model: nn.Module, directory: Path, device: torch.device) -> None:
    """Write all three, lead each to another one, and check that not one bit has changed."""
    rank = dist.get_rank()
    states = {}
    for kind, make in (("LOCAL", local_state), ("SHARDED", sharded_state), ("FULL", full_state)):
        with CommDebugMode() as communication:
            states[kind] = make(model)
        if rank == 0:
            print(f"{kind:8} {communication.get_total_counts()} collectives", flush=True)
    directory.mkdir(parents=True, exist_ok=True)
    torch.save(states["LOCAL"], directory / f"local-{rank}.pth")
    dcp.save(states["SHARDED"], checkpoint_id=directory / "sharded")
    if rank == 0:
        torch.save(states["FULL"], directory / "full.pth")
        dcp_to_torch_save(directory / "sharded", directory / "full-of-sharded.pth")
        torch_save_to_dcp(directory / "full.pth", directory / "sharded-of-full")
    dist.barrier()

    like = states["SHARDED"]
    local = torch.load(directory / f"local-{rank}.pth", weights_only=True, map_location=device)
    full = torch.load(directory / "full-of-sharded.pth", weights_only=True, mmap=True)
    read_back = {name: torch.empty_like(value) for name, value in like.items()}
    dcp.load(read_back, checkpoint_id=directory / "sharded-of-full")
    ways = {
        "LOCAL -> SHARDED": local_to_sharded(local, like),
        "SHARDED -> FULL -> SHARDED": full_to_sharded(full, like),
        "FULL -> SHARDED": read_back,
    }
    for way, state in ways.items():
        assert all(torch.equal(state[name].to_local(), like[name].to_local()) for name in like), way
        if rank == 0:
            print(f"{way}: equal", flush=True)
