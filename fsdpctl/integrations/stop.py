"""Stop all ranks after the same step.

    from fsdpctl.integrations.stop import stop_requested
    ...
    if stop_requested():  # after each step, on every rank
        save(...)
        break

Outside of a run nothing is requested.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import NoReturn

import torch
import torch.distributed as dist

from fsdpctl.contract import Env
from fsdpctl.node.os import signals


def stop_requested() -> bool:
    """Return True on all ranks once one of them has seen the stop file. All must call it after the same steps."""
    path = os.environ.get(Env.STOP_FILE)
    if path is None:  # not in a run
        return False
    has_seen = Path(path).exists()
    if not _has_peers():
        return has_seen
    flag = torch.tensor(int(has_seen))
    dist.all_reduce(flag, dist.ReduceOp.MAX, group=_group())
    return bool(flag)


def wait_for_all_ranks() -> None:
    """Wait until all ranks have come here, and so have saved what they save before."""
    if _has_peers():
        dist.barrier(_group())


def check_same(found: str | None) -> str | None:
    """Return the checkpoint that this rank has found. Raise RuntimeError where another rank has found another one."""
    if _has_peers():
        of_ranks: list[str | None] = [None] * dist.get_world_size()
        dist.all_gather_object(of_ranks, found, group=_group())
        if len(set(of_ranks)) > 1:
            raise RuntimeError(
                f"rank 0 resumes from {of_ranks[0]}, but ranks have found {sorted({str(one) for one in of_ranks})}:"
                " without a shared disk, save on each node (Trainer: save_on_each_node=True), and remove what not all"
                " nodes have"
            )
    return found


def leave() -> NoReturn:
    """End this rank, and each other one, as stopped and saved. What follows in the script is for the end of the run."""
    wait_for_all_ranks()
    signals.ignore()  # Python no longer calls handlers when it exits, and the signal of the stop may come late
    raise SystemExit(0)


def _has_peers() -> bool:
    return dist.is_initialized() and dist.get_world_size() > 1


@cache
def _group() -> dist.ProcessGroup | None:
    """Return a group of all ranks on CPUs: over NCCL each look would wait for the GPU."""
    group: dist.ProcessGroup | None = dist.new_group(backend="gloo")
    return group
