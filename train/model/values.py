"""First values of parameters, whole or sharded: this rank keeps its part of each."""

from __future__ import annotations

import torch
from torch.distributed.tensor import DTensor, distribute_tensor

from train.model.language_model import LanguageModel
from train.shards import local_part


@torch.no_grad()
def init_weights(model: LanguageModel, seed: int) -> None:
    """Give the model its first values.

    Each parameter is drawn whole on the CPU, and this rank keeps its part: no communication, and the same values in
    every world.
    """
    for name, parameter in model.named_parameters():
        fill(parameter, model.initial_value(name, parameter.shape, seed))


@torch.no_grad()
def fill(tensor: torch.Tensor, full: torch.Tensor) -> None:
    """Give a tensor its whole value, of which this rank keeps its part."""
    if isinstance(tensor, DTensor):
        mesh, placements = tensor.device_mesh, tensor.placements
        full = distribute_tensor(full.to(tensor.device), mesh, placements, src_data_rank=None)
    local_part(tensor).copy_(local_part(full))
