"""The part of a sharded tensor that this rank has.

An operation on DTensors first derives how its result is sharded, in each process anew: for 146 weights on a mesh of two
dimensions that was most of the 3 s before the first step (docs/measured.md). So what works on each shard alone gets the
shards.
"""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.tensor import DTensor


@torch.no_grad()
def local_part(tensor: Tensor) -> Tensor:
    """Return this rank's part, which shares memory with `tensor`; all of a tensor that is not sharded."""
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def sharded_as(tensor: Tensor, part: Tensor) -> Tensor:
    """Return the tensor that is sharded as `tensor` is, and of which this rank has `part`."""
    if not isinstance(tensor, DTensor):
        return part
    mesh, placements = tensor.device_mesh, tensor.placements
    return DTensor.from_local(part, mesh, placements, run_check=False, shape=tensor.shape, stride=tensor.stride())


def sum_over_shards(value: Tensor, tensor: Tensor) -> Tensor:
    """Sum `value` in place over the ranks that have different parts of `tensor`, without waiting for the device."""
    if isinstance(tensor, DTensor):
        for group, placement in zip(tensor.device_mesh.get_all_groups(), tensor.placements, strict=True):
            if not placement.is_replicate():
                dist.all_reduce(value, group=group)
    return value
