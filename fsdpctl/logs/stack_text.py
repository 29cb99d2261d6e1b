"""Stacks as text: one frame per line, without those that every rank has from fsdpctl itself."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.contract.source_files import ON_NODES
from fsdpctl.contract.stack_dump import ThreadStack

_IMPORTS = "<frozen importlib"
_STARTS = ("<frozen runpy>:", ON_NODES, "/threading.py:")


def describe_threads(threads: Sequence[ThreadStack]) -> str:
    """Return the threads of one rank, the main thread first."""
    parts = []
    for thread in threads:
        frames = [str(frame) for frame in thread.frames]
        name = f" {thread.name}" if thread.name else ""
        parts.append("main thread" if thread.is_main else f"thread{name}")
        parts += [f"  {frame}" for frame in without_start(frames)] or ["  no frame of Python"]
    return "\n".join(parts)


def without_start(frames: Sequence[str]) -> list[str]:
    """Return the frames (most recent call first) without those of imports, and of the start of a script or thread."""
    kept = [frame for frame in frames if not frame.startswith(_IMPORTS)]
    while len(kept) > 1 and any(part in kept[-1] for part in _STARTS):
        kept.pop()
    return kept
