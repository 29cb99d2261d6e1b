"""Traces of chosen steps, and snapshots of GPU memory, on request or when it runs out.

One that cannot be written, as on a full disk, is one warning: training continues.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity, profile

from fsdpctl.contract.rank_progress import Section
from train.context import RankContext
from train.metrics.time_shares import TimeShares, measure_shares

log = logging.getLogger(__name__)

MEMORY_EVENTS = 100_000


class Profiler:
    """Records the chosen steps on every rank, each into a file of its own, for Perfetto or chrome://tracing."""

    def __init__(self, context: RankContext) -> None:
        config = context.config.profile
        self.first, self.last = config.first_step, (config.first_step or 0) + config.steps - 1  # counted from 1
        self.directory, self.world, self.progress = context.paths.profiles, context.world, context.progress
        self.snapshot_request = context.paths.attempt(context.attempt).memory_snapshot_request
        self.look_every = context.config.log_every
        self.seen_request: int | None = None  # when the request was last touched
        self.recording: profile | None = None
        self.shares: TimeShares | None = None  # of the traced steps
        self.records_history = config.memory and self.world.device.type == "cuda"
        if self.records_history:
            torch.cuda.memory._record_memory_history(max_entries=MEMORY_EVENTS)

    def before_step(self, step: int) -> bool:
        """Begin a trace, if it starts with this step, counted from 1; return whether it does, which takes time."""
        if step != self.first:
            return False
        cuda = [ProfilerActivity.CUDA] if self.world.device.type == "cuda" else []
        self.recording = profile(activities=[ProfilerActivity.CPU, *cuda])
        self.recording.start()
        return True

    def after_step(self, step: int) -> bool:
        """End a trace, if it ends with this step, and write a snapshot of memory, if one was requested.

        Return whether one of them was due, which takes time.
        """
        ends = step == self.last and self.recording is not None
        if ends:
            self.close(step)
        is_requested = step % self.look_every == 0 and self._is_requested()
        if is_requested:
            self._show_memory(step)
        return ends or is_requested

    def close(self, step: int) -> None:
        """Write the trace of the steps up to this one, if one is being recorded."""
        if self.recording:
            self.progress.mark(Section.SAVE, step, "trace")  # a large one takes long, and is no hang
            if self.world.device.type == "cuda":
                torch.cuda.synchronize()
            self.recording.stop()
            path = self._write("trace", f"steps-{self.first}-{step}.json.gz", self.recording.export_chrome_trace)
            self.shares = measure_shares(self.recording.events() or (), self.world.device.type)  # type: ignore[no-untyped-call]
            log.info("profiled steps %s to %d: %s%s", self.first, step, path or "no file", _describe(self.shares))
            self.recording = None

    def summary(self) -> dict[str, float]:
        """Return numbers for the outcome of the run."""
        return self.shares.summary() if self.shares else {}

    def out_of_memory(self) -> Path | None:
        """Write what held the GPU's memory, for pytorch.org/memory_viz; return None where there is no such file."""
        if not self.records_history:
            return None
        return self._dump_memory("out-of-memory")

    def _is_requested(self) -> bool:
        """Return whether a snapshot was requested since the last look."""
        before, self.seen_request = self.seen_request, _touched(self.snapshot_request)
        return self.seen_request != before

    def _show_memory(self, step: int) -> None:
        if self.world.device.type != "cuda":
            log.warning("a snapshot of GPU memory was requested, but this run has no GPU")
            return
        if (path := self._dump_memory(f"memory-{step}")) is not None:
            log.info("GPU memory after step %d: %s", step, path)

    def _dump_memory(self, what: str) -> Path | None:
        return self._write("snapshot of GPU memory", f"{what}.pickle", torch.cuda.memory._dump_snapshot)

    def _write(self, what: str, name: str, write: Callable[[str], object]) -> Path | None:
        """Write a file of this rank; return None where that fails, after a warning."""
        path = self.directory / f"rank-{self.world.rank}-{name}"
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            write(str(path))
        except (OSError, RuntimeError) as error:  # torch's own writers raise both
            log.warning("no %s: %s", what, error)
            return None
        return path


def _touched(path: Path) -> int | None:
    """Return the time of the last change, in nanoseconds; None where there is no such file."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return None


def _describe(shares: TimeShares | None) -> str:
    if shares is None:
        return ""
    return f"; communication {shares.communication:.0%} of the time, {shares.exposed:.0%} not hidden behind compute"


def memory_advice(error: Exception, snapshot: Any) -> str:
    """Return the line for a GPU whose memory ran out: the error, the snapshot, and what to change."""
    first = str(error).partition("\n")[0]
    where = f" (what held it: {snapshot}, for pytorch.org/memory_viz)" if snapshot else ""
    return f"{first}{where}; take a smaller micro_batch, or set memory.recompute, a strategy that shards, cpu_offload"
