"""What the fork server imports, and what of it would spoil a fork."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path

from fsdpctl.commands.torchrun import TORCHRUN
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.os.processes import PROC
from fsdpctl.node.warm.compiler import import_compiler

TORCH = "torch"
TRAINER = "trainer"
TENSORBOARD = "tensorboard"
COMPILER = "compiler"
_SETS = {
    TORCH: ("torch", "torch.distributed.run", "torch.distributed.fsdp", "fsdpctl.node.agent.rank", TORCHRUN),
    TRAINER: (
        "train.context",
        "train.loop",
        "train.parallel.world",
        "torch._dynamo",  # which optimizers import
    ),
    TENSORBOARD: ("torch.utils.tensorboard",),
}
_OPTIONAL = "torch.utils.tensorboard"


def warm_sets(plan: LaunchPlan, node_rank: int) -> list[str]:
    """Return the names of the sets of modules that the ranks of a node need, and of the plan's own modules."""
    writer = [TENSORBOARD] if node_rank == 0 else []  # rank 0 writes
    trainer = [TRAINER, *writer, *([COMPILER] if plan.device == "cuda" else [])]
    return [TORCH, *(trainer if plan.entry.is_bundled_trainer else []), *plan.warm_imports]


def import_all(sets: Iterable[str]) -> None:
    """Import the modules of the sets, and modules that are given by name. Raise what they raise.

    Children get their own environment: TORCH_WARM_POOL is for these imports, which must start no compile workers.
    """
    os.environ["TORCH_WARM_POOL"] = "0"
    for one in sets:
        if one == COMPILER:
            import_compiler()
            continue
        for name in _SETS.get(one, (one,)):
            with suppress(ImportError) if name == _OPTIONAL else nullcontext():
                importlib.import_module(name)


def find_fork_hazard() -> str | None:
    """Return why no child of this process could be trusted, or None.

    A first child shows it: torch marks CUDA as unusable in a child if its parent has touched it, and OpenBLAS ends its
    threads at a fork, while any other thread is still there.
    """
    pid = os.fork()
    if pid == 0:
        torch = sys.modules.get("torch")
        os._exit(int(torch is not None and torch.cuda._is_in_bad_fork()))
    if os.waitpid(pid, 0)[1] != 0:
        return "touched CUDA"
    if threads := _other_threads():
        return f"started threads: {', '.join(threads)}"
    return "opened a GPU" if any(map(_is_gpu, (PROC / "self/fd").iterdir())) else None


def _other_threads() -> list[str]:
    """Return the names of all threads but this one, as the kernel has them: libraries name most of theirs."""
    names = []
    for task in (PROC / "self/task").iterdir():
        if task.name != str(threading.get_native_id()):
            with suppress(OSError):  # it has ended
                names.append((task / "comm").read_text().strip())
    return sorted(names)


def _is_gpu(descriptor: Path) -> bool:
    try:
        return str(descriptor.readlink()).startswith("/dev/nvidia")
    except OSError:  # the one that listed the directory
        return False
