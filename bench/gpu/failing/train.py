"""A training whose last rank fails in the way that its argument names. It has no model: only what ranks exchange."""

from __future__ import annotations

import os
import signal
import sys

import torch
import torch.distributed as dist

from fsdpctl.report import step

STEPS, FAILS_AT, SIZE, OTHER_SIZE = 40, 20, 1 << 20, 1 << 26
"""NCCL compares no sizes: of twice as many elements each rank made as many messages, and nothing failed."""


def main(kind: str) -> None:
    """Run the steps; `kind` is skip, shape, stop, oom, assert or none."""
    cuda = torch.cuda.is_available()
    if cuda:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl" if cuda else "gloo")
    device = torch.device("cuda" if cuda else "cpu")
    is_last = dist.get_rank() == dist.get_world_size() - 1
    for number in range(STEPS):
        step(number)
        fails = is_last and number == FAILS_AT
        if not (fails and kind == "skip"):
            reduce_gradients(OTHER_SIZE if fails and kind == "shape" else SIZE, device)
        if fails:
            fail(kind, device)
        share_loss(device)
        if cuda:
            torch.cuda.synchronize()
    dist.destroy_process_group()


def reduce_gradients(size: int, device: torch.device) -> None:
    dist.all_reduce(torch.ones(size, device=device))


def share_loss(device: torch.device) -> None:
    losses = [torch.ones(1, device=device) for _ in range(dist.get_world_size())]
    dist.all_gather(losses, torch.ones(1, device=device))


def fail(kind: str, device: torch.device) -> None:
    if kind == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif kind == "oom":
        torch.empty(1 << 50, dtype=torch.uint8, device=device)
    elif kind == "assert":
        print(torch.zeros(4, device=device)[torch.tensor([9], device=device)].cpu())


if __name__ == "__main__":
    main(sys.argv[1])
