"""The ranks of this run: their device, and the few words that ranks say to each other outside of FSDP.

Those words go over a gloo group of their own, so that a slow checkpoint never meets NCCL's watchdog and no
agreement waits for a GPU. One process without torchrun is a world of one; nothing else in the trainer
needs to know.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import HashStore

from train.errors import ConfigError
from train.parallel.rank_info import Place
from train.threads import attempt

T = TypeVar("T")

CONTROL_TIMEOUT = timedelta(hours=2)  # rank 0 may take long to commit a large checkpoint


class Council:
    """Agreement among its members, over a gloo group that nobody else uses; one thread at a time."""

    def __init__(self, place: Place, members: range, control: dist.ProcessGroup) -> None:
        self.place = place  # among the members
        self.members = members  # their ranks in the world
        self.control = control

    @property
    def is_main(self) -> bool:
        return self.place.is_main

    def broadcast(self, value: T) -> T:
        """Return rank 0's value on every rank."""
        box = [value]
        dist.broadcast_object_list(box, src=self.members[0], group=self.control)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Return every rank's value, by rank, on every rank."""
        values = [value] * self.place.world
        dist.all_gather_object(values, value, group=self.control)
        return values

    def on_main(self, work: Callable[[], T]) -> T:
        """Run `work` on rank 0 alone; every rank returns its value, or raises its exception."""
        value, error = self.broadcast(attempt(work) if self.is_main else (None, None))
        if error is not None:
            raise error
        return cast(T, value)

    def on_all(self, work: Callable[[], T]) -> list[T]:
        """Run `work` on every rank; return the values by rank, or raise on every rank what one raised."""
        results = self.gather(attempt(work))
        for _, error in results:
            if error is not None:
                raise error
        return [cast(T, value) for value, _ in results]

    def maximum(self, value: int) -> int:
        """Return the largest value of all ranks. Cheap enough for every step."""
        box = torch.tensor([value], dtype=torch.int32)
        dist.all_reduce(box, op=dist.ReduceOp.MAX, group=self.control)
        return int(box.item())


class World(Council):
    """All ranks of the run: their device, and agreement among them."""

    def __init__(self, place: Place, shared_disk: bool = True) -> None:
        self.shared_disk = shared_disk
        self.device = _pick_device(place)
        # On CPUs a run can be repeated to the bit. On GPUs that costs speed, and is not what people come for.
        torch.use_deterministic_algorithms(self.device.type == "cpu")
        self.backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
        if "RANK" in os.environ:
            dist.init_process_group(self.backend)
        else:
            dist.init_process_group(self.backend, store=HashStore(), rank=0, world_size=1)
        super().__init__(place, range(place.world), _new_control_group())

    @property
    def is_scribe(self) -> bool:
        """Whether this rank writes what a disk has once: rank 0, or the first rank of each node on its own disk."""
        return self.is_main if self.shared_disk else self.place.local_rank == 0

    def new_council(self) -> Council:
        """Of the ranks that have one disk, for a thread of each that works beside this one."""
        if self.shared_disk:
            return Council(self.place, self.members, _new_control_group())
        groups = [_new_control_group(self.place.ranks_of(node)) for node in range(self.place.nodes)]
        local = self.place.local_rank, self.place.local_world
        return Council(Place(*local, *local), self.place.ranks_of(self.place.node), groups[self.place.node])

    def add_up(self, tensor: Tensor) -> Tensor:
        """Sum a device tensor over the ranks, in place, without waiting for the device."""
        dist.all_reduce(tensor)
        return tensor

    def close(self) -> None:
        dist.destroy_process_group()


def _new_control_group(ranks: range | None = None) -> dist.ProcessGroup:
    """A group of these ranks, or of all; every rank makes every group."""
    group: dist.ProcessGroup = dist.new_group(ranks and list(ranks), backend="gloo", timeout=CONTROL_TIMEOUT)
    return group


def _pick_device(place: Place) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if place.local_world > (count := torch.cuda.device_count()):
        raise ConfigError(f"{place.local_world} processes on this node, but it has only {count} GPUs")
    device = torch.device("cuda", place.local_rank)
    torch.cuda.set_device(device)
    return device
