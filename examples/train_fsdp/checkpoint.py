"""`fsdp_cpt{step}.pth`: a file with the whole state (full), or a directory with a file of each rank (sharded).

Either loads at any number of ranks. It gets its name, or its `.metadata`, last: what has it is complete.
"""

from __future__ import annotations

import re
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.optim import Optimizer


def save(directory: Path, step: int, model: nn.Module, optimizer: Optimizer, full: bool) -> None:
    """Save on all ranks: a full state is gathered by the first one, into its host's memory."""
    path = directory / f"fsdp_cpt{step}.pth"
    options = StateDictOptions(full_state_dict=full, cpu_offload=full)
    model_state, optimizer_state = get_state_dict(model, optimizer, options=options)
    state = {"model": model_state, "optimizer": optimizer_state}
    if not full:
        dcp.save(state, checkpoint_id=path)
    elif dist.get_rank() == 0:
        directory.mkdir(parents=True, exist_ok=True)
        torch.save(state, temporary := path.with_suffix(".tmp"))
        temporary.rename(path)
    dist.barrier()


def load(path: Path, model: nn.Module, optimizer: Optimizer) -> int:
    """Load either form on all ranks; return its step. A full one is mapped, not read: each rank copies its part."""
    if full := path.is_file():
        state = torch.load(path, weights_only=True, mmap=True)
    else:
        model_state, optimizer_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optimizer": optimizer_state}
        dcp.load(state, checkpoint_id=path)
    options = StateDictOptions(full_state_dict=full)
    set_state_dict(
        model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"], options=options
    )
    return step_of(path)


def newest(directory: Path) -> Path | None:
    complete = (path for path in directory.glob("fsdp_cpt*.pth") if path.is_file() or (path / ".metadata").exists())
    return max(complete, key=step_of, default=None)


def step_of(path: Path) -> int:
    return int(re.findall(r"\d+", path.stem)[-1])
