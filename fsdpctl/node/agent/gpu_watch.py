"""The GPUs of this node, as a process of its own reports them every few seconds; nothing where there is no driver."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from contextlib import suppress

from fsdpctl.contract.codec import CodecError, decode
from fsdpctl.contract.node_report import GpuSample
from fsdpctl.node.os import processes

EVERY_S = 5.0
STALE_S = 20.0
"""A sample that is older is not reported: the driver hangs."""
CLOSE_S = 2.0


class GpuWatch:
    """The newest sample of each GPU. `look` never waits."""

    def __init__(self, visible: str | None, every_s: float = EVERY_S) -> None:
        """Start the process; `visible` is the node's CUDA_VISIBLE_DEVICES, if the plan sets it."""
        agent = os.getpid()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "fsdpctl.node.gpus", "--every", str(every_s)],
            env={**os.environ, **({"CUDA_VISIBLE_DEVICES": visible} if visible is not None else {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            preexec_fn=lambda: processes.die_with_parent(lambda parent: parent == agent),
        )
        assert self._process.stdout is not None
        self._pipe = self._process.stdout.fileno()
        os.set_blocking(self._pipe, False)
        self._unread = b""
        self._samples: tuple[GpuSample, ...] = ()
        self._time = time.monotonic()
        self.energy_j: float | None = None
        """What all GPUs have used up to the newest sample that has it."""

    def look(self) -> tuple[GpuSample, ...]:
        """Return the newest samples; none if there is no GPU, or no answer of the driver any more."""
        with suppress(BlockingIOError):
            *lines, self._unread = (self._unread + os.read(self._pipe, 2**20)).split(b"\n")
            if lines:
                self._samples, self._time = _parse(lines[-1]), time.monotonic()
                used = [gpu.energy_j for gpu in self._samples if gpu.energy_j is not None]
                self.energy_j = sum(used) if used else self.energy_j
        return self._samples if time.monotonic() - self._time < STALE_S else ()

    def close(self) -> None:
        """End the process, unless the driver holds it."""
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)


def _parse(line: bytes) -> tuple[GpuSample, ...]:
    try:
        return decode(tuple[GpuSample, ...], json.loads(line))
    except (CodecError, ValueError):
        return ()
