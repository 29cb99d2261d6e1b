"""Start a process beside the ranks, which run without it where that fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from fsdpctl.node.os.log import log

T = TypeVar("T")


def start_companion(name: str, start: Callable[[], T]) -> T | None:
    """Return what `start` returns; None, and a line in the agent's log, where it raises an OSError."""
    try:
        return start()
    except OSError as error:
        log(f"{name}: cannot be started: {error}")
        return None
