"""Stacks as text: one frame per line, without those that every rank has from fsdpctl itself."""

from __future__ import annotations

from collections.abc import Sequence

from fsdpctl.contract.stack_dump import ThreadStack

_RUNNER = ("<frozen runpy>:", "/fsdpctl/node/agent/rank.py:")
_RECORDER = "/fsdpctl/node/agent/flight.py:"


def describe_threads(threads: Sequence[ThreadStack]) -> str:
    """Return the threads of one rank, the main thread first."""
    parts = []
    for thread in threads:
        frames = [str(frame) for frame in thread.frames]
        if any(_RECORDER in frame for frame in frames):
            continue
        name = f" {thread.name}" if thread.name else ""
        parts.append("main thread" if thread.is_main else f"thread{name}")
        parts += [f"  {frame}" for frame in without_runner(frames)] or ["  no frame of Python"]
    return "\n".join(parts)


def without_runner(frames: Sequence[str]) -> list[str]:
    """Return the frames (the most recent call first) up to those that start a script."""
    kept = list(frames)
    while len(kept) > 1 and any(part in kept[-1] for part in _RUNNER):
        kept.pop()
    return kept
