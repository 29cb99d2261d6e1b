"""Record what the GPUs of this node do, every few seconds."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from fsdpctl.contract.gpu_history import EVERY_S, append_moment
from fsdpctl.contract.node_report import GpuSample


class GpuHistory:
    """Appends samples to a file of the node, one every `every_s`."""

    def __init__(self, path: Path, every_s: float = EVERY_S) -> None:
        self._path, self._every_s = path, every_s
        self._next = 0.0

    def add(self, gpus: Sequence[GpuSample]) -> None:
        """Record these samples, if there are any and it is time."""
        if gpus and time.monotonic() >= self._next:
            self._next = time.monotonic() + self._every_s
            append_moment(self._path, time.time(), gpus)
