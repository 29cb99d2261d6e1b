"""Copies of what this rank saves, taken at a step boundary, so that training need not wait for the disk.

torch has a stager of its own; in torch 2.11 a second save with the same one fails (pytorch #183413), and host memory
grows with every new one (pytorch #170163). Here the buffers are made once and live as long as the run.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.distributed.checkpoint.default_planner import create_default_local_save_plan
from torch.distributed.checkpoint.planner import WriteItem
from torch.distributed.tensor import DTensor

from train.checkpoint.threads import start_in_thread
from train.shards import local_part


@dataclass(frozen=True)
class StagedTensor:
    """What one rank writes of one tensor."""

    item: WriteItem  # its offsets in the whole tensor
    values: Tensor  # a copy on the host


class Staging:
    """Host buffers for one save at a time. On a GPU they are pinned, and filled beside the computation."""

    def __init__(self, tensors: Mapping[str, Tensor], rank: int, members: range, device: torch.device) -> None:
        self.device = device
        on_gpu = device.type == "cuda"
        self.stream = torch.cuda.Stream(device) if on_gpu else None  # type: ignore[no-untyped-call]
        self.copied = torch.cuda.Event() if on_gpu else None  # type: ignore[no-untyped-call]
        mine = choose_share(tensors, rank, members)
        items = create_default_local_save_plan(mine, is_coordinator=True).items
        # Pinned memory takes half a second a GB: time enough until the first save.
        self._allocated = start_in_thread(lambda: self._allocate(mine, items))

    @cached_property
    def staged(self) -> dict[str, StagedTensor]:
        return self._allocated()

    def copy(self, tensors: Mapping[str, Tensor]) -> dict[str, StagedTensor]:
        """Begin to copy this rank's share; `wait` before reading it, and `hold` before the tensors change."""
        if self.stream is None or self.copied is None:
            self._fill(tensors)
            return self.staged
        self.stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(self.stream):
            self._fill(tensors)
            self.copied.record(self.stream)
        return self.staged

    def hold(self) -> None:
        """Make the device's next work wait for the copy. The host does not wait."""
        if self.copied:
            torch.cuda.current_stream(self.device).wait_event(self.copied)

    def wait(self) -> None:
        """Wait until the copy is complete."""
        if self.copied:
            self.copied.synchronize()

    def _fill(self, tensors: Mapping[str, Tensor]) -> None:
        for name, staged in self.staged.items():
            staged.values.copy_(local_part(tensors[name]), non_blocking=True)

    def _allocate(self, tensors: Mapping[str, Tensor], items: Sequence[WriteItem]) -> dict[str, StagedTensor]:
        on_gpu = self.stream is not None
        if on_gpu:
            torch.cuda.set_device(self.device)  # a thread begins on GPU 0
        staged = {}
        for item in items:
            name = item.index.fqn
            buffer = torch.empty_like(local_part(tensors[name]), device="cpu", pin_memory=on_gpu)
            staged[name] = StagedTensor(item, buffer)
        return staged


def choose_share(tensors: Mapping[str, Tensor], rank: int, members: range) -> dict[str, Tensor]:
    """Return the tensors that this rank writes, of a state that the members save together.

    What several of them hold alike goes to the one with the least so far. All ranks compute the same result, without
    a message.
    """
    loads: dict[int, list[int]] = defaultdict(list)
    chosen = {}
    for name, tensor in tensors.items():
        holders = _holders(tensor, members)
        mine = holders.index(rank)
        load = loads[len(holders)] = loads[len(holders)] or [0] * len(holders)
        owner = load.index(min(load))
        load[owner] += math.prod(tensor.shape)
        if owner == mine:
            chosen[name] = tensor
    return chosen


def _holders(tensor: Tensor, members: range) -> list[int]:
    """Return the members that hold the same part of this tensor."""
    if not isinstance(tensor, DTensor):
        return list(members)
    coordinate = tensor.device_mesh.get_coordinate()
    assert coordinate is not None
    alike = [slice(None) if p.is_replicate() else at for p, at in zip(tensor.placements, coordinate, strict=True)]
    return [rank for rank in tensor.device_mesh.mesh[tuple(alike)].flatten().tolist() if rank in members]
