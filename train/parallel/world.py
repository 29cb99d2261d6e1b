"""The ranks of this run: their device, and the small messages that ranks exchange outside of FSDP.

These messages use a gloo group of their own, so that a slow checkpoint never runs into NCCL's watchdog and no
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
from train.parallel.rank_info import RankInfo

T = TypeVar("T")

CONTROL_TIMEOUT = timedelta(hours=2)  # rank 0 may take long to commit a large checkpoint


class ControlGroup:
    """Agreement among some ranks, over a gloo group of their own; used by one thread at a time."""

    def __init__(self, rank: int, members: range, process_group: dist.ProcessGroup) -> None:
        self.rank = rank  # within this group
        self.members = members  # their ranks in the world
        self.process_group = process_group

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def is_main(self) -> bool:
        return self.rank == 0

    def broadcast(self, value: T, source: int = 0) -> T:
        """Return the value of one rank, by its rank in this group, on every rank."""
        box = [value]
        dist.broadcast_object_list(box, src=self.members[source], group=self.process_group)
        return box[0]

    def gather(self, value: T) -> list[T]:
        """Return every rank's value, by rank, on every rank."""
        values = [value] * self.size
        dist.all_gather_object(values, value, group=self.process_group)
        return values

    def on_main(self, work: Callable[[], T]) -> T:
        """Run `work` on rank 0 alone; every rank returns its value, or raises its exception."""
        value, error = self.broadcast(capture(work) if self.is_main else (None, None))
        if error is not None:
            raise error
        return cast(T, value)

    def on_all(self, work: Callable[[], T]) -> list[T]:
        """Run `work` on every rank; return the values by rank, or raise on every rank what one raised."""
        results = self.gather(capture(work))
        for _, error in results:
            if error is not None:
                raise error
        return [cast(T, value) for value, _ in results]

    def maximum(self, value: int) -> int:
        """Return the largest value of all ranks. Cheap enough for every step."""
        box = torch.tensor([value], dtype=torch.int32)
        dist.all_reduce(box, op=dist.ReduceOp.MAX, group=self.process_group)
        return int(box.item())


class World(ControlGroup):
    """All ranks of the run: their device, and agreement among them."""

    def __init__(self, rank_info: RankInfo, shared_disk: bool = True, deterministic: bool = False) -> None:
        self.rank_info, self.shared_disk = rank_info, shared_disk
        self.device = _pick_device(rank_info)
        choose_algorithms(self.device, deterministic)
        self.backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
        if "RANK" in os.environ:
            dist.init_process_group(self.backend)
        else:
            dist.init_process_group(self.backend, store=HashStore(), rank=0, world_size=1)
        super().__init__(rank_info.rank, range(rank_info.world_size), _new_gloo_group())

    @property
    def is_writer(self) -> bool:
        """This rank writes the files that a disk has once: rank 0, or the first rank of each node on its own disk."""
        return self.is_main if self.shared_disk else self.rank_info.local_rank == 0

    def new_control_group(self) -> ControlGroup:
        """Return a group of the ranks that have one disk, for a thread of each that runs beside this one."""
        info = self.rank_info
        if self.shared_disk:
            return ControlGroup(self.rank, self.members, _new_gloo_group())
        groups = [_new_gloo_group(info.ranks_of(node)) for node in range(info.nodes)]
        return ControlGroup(info.local_rank, info.ranks_of(info.node), groups[info.node])

    def all_reduce_sum(self, tensor: Tensor) -> Tensor:
        """Sum a device tensor over the ranks, in place, without waiting for the device."""
        dist.all_reduce(tensor)
        return tensor

    def close(self) -> None:
        """Leave the process groups, at a good end: after an error, a peer may still wait in a collective."""
        dist.destroy_process_group()


def capture(work: Callable[[], T]) -> tuple[T | None, Exception | None]:
    """Return the value of `work`, or what it raised, to be raised elsewhere."""
    try:
        return work(), None
    except Exception as error:
        return None, error


def _new_gloo_group(ranks: range | None = None) -> dist.ProcessGroup:
    """Return a group of these ranks, or of all; every rank makes every group."""
    group: dist.ProcessGroup = dist.new_group(ranks and list(ranks), backend="gloo", timeout=CONTROL_TIMEOUT)
    return group


def choose_algorithms(device: torch.device, deterministic: bool) -> None:
    """Take deterministic algorithms on CPUs, and on GPUs where a job asks for them, because there they cost speed."""
    if deterministic and device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read when cuBLAS is first used
    torch.use_deterministic_algorithms(deterministic or device.type == "cpu")


def _pick_device(rank_info: RankInfo) -> torch.device:
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if rank_info.local_world_size > (count := torch.cuda.device_count()):
        raise ConfigError(f"{rank_info.local_world_size} processes on this node, but it has only {count} GPUs")
    device = torch.device("cuda", rank_info.local_rank)
    torch.cuda.set_device(device)
    return device
