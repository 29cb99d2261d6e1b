"""Where nodes share no disk, each saves a whole copy. At the start a node that lacks the newest one gets it from
another, over the network that the ranks talk on, with the metrics that lead to it.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from fsdpctl.contract.checkpoint import Manifest, verify_files
from fsdpctl.contract.paths import checkpoint_name

from .checkpoint import Checkpoints
from .distributed import CONTROL_TIMEOUT, World
from .errors import TrainError

log = logging.getLogger(__name__)

BLOCK = 16 * 2**20


@dataclass(frozen=True)
class Copy:
    """What one node has: its newest checkpoint that is intact, and so many bytes of metrics."""

    manifest: Manifest | None
    metrics_size: int

    @property
    def step(self) -> int:
        return self.manifest.step if self.manifest else -1


def share_newest(checkpoints: Checkpoints, own: Manifest | None, world: World) -> Manifest | None:
    """Give every node the newest checkpoint of any node. `own`: the newest one of this node."""
    metrics = checkpoints.paths.metrics
    copies = world.gather(Copy(own, metrics.stat().st_size if metrics.exists() else 0))
    newest = max(copies, key=lambda copy: copy.step)
    leads = range(0, world.place.world, world.place.local_world)
    source, *_ = holders = [rank for rank in leads if copies[rank].step == newest.step]
    lacking = [rank for rank in leads if rank not in holders]
    if newest.manifest is None or not lacking:
        return newest.manifest
    name, began = checkpoint_name(newest.step), time.perf_counter()
    wire = _Wire(source, lacking)
    if world.place.rank == source:
        wire.send(_files(checkpoints.root / name, newest.manifest, metrics, copies[source].metrics_size))
    world.on_all(lambda: _fetch(checkpoints, copies[source], wire) if world.place.rank in lacking else None)
    nodes = ", ".join(str(rank // world.place.local_world) for rank in lacking)
    seconds, megabytes = time.perf_counter() - began, newest.manifest.num_bytes / 1e6
    log.info("node %s got %s from node %d: %.1f MB in %.1f s", nodes, name, leads.index(source), megabytes, seconds)
    return newest.manifest


def _files(directory: Path, manifest: Manifest, metrics: Path, metrics_size: int) -> list[tuple[Path, int]]:
    """What travels, in this order, and the size of each."""
    return [*((directory / name, entry.size) for name, entry in manifest.files.items()), (metrics, metrics_size)]


def _fetch(checkpoints: Checkpoints, copy: Copy, wire: _Wire) -> None:
    """Receive a checkpoint aside, verify it, and commit it as if it had been saved here."""
    manifest = copy.manifest
    assert manifest is not None
    name = checkpoint_name(manifest.step)
    aside = checkpoints.root / f"{name}.tmp-{checkpoints.attempt}-{uuid.uuid4().hex[:8]}"
    metrics = aside / checkpoints.paths.metrics.name
    try:
        with suppress(OSError):  # each file will say it again, and all of them must be taken off the wire
            aside.mkdir(mode=0o700, parents=True)
        wire.receive(_files(aside, manifest, metrics, copy.metrics_size))
        verify_files(aside, manifest.files.items())
        metrics.replace(checkpoints.paths.metrics)
        checkpoints.commit(aside, manifest)
        checkpoints.invalid.discard(name)
    except OSError as error:
        raise TrainError(f"{name} cannot be copied to {checkpoints.root}: {error.strerror}") from None
    finally:
        shutil.rmtree(aside, ignore_errors=True)


class _Wire:
    """Carries files from one rank to some others. Made by all ranks together."""

    def __init__(self, source: int, receivers: list[int]) -> None:
        self._source = source
        self._group = dist.new_group([source, *receivers], backend="gloo", timeout=CONTROL_TIMEOUT)

    def send(self, files: list[tuple[Path, int]]) -> None:
        for path, size in files:
            with open(path, "rb") as file:
                for block in _blocks(size):
                    file.readinto(block.numpy().data)
                    dist.broadcast(block, self._source, self._group)

    def receive(self, files: list[tuple[Path, int]]) -> None:
        """Raises the first OSError, but only after everything has arrived: nobody is left waiting for this rank."""
        problems = []
        for path, size in files:
            arriving = self._arriving(size)
            try:
                with open(path, "wb") as file:
                    for block in arriving:
                        file.write(block.numpy().data)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                problems.append(error)
            for _ in arriving:
                pass
        if problems:
            raise problems[0]

    def _arriving(self, size: int) -> Iterator[torch.Tensor]:
        for block in _blocks(size):
            dist.broadcast(block, self._source, self._group)
            yield block


def _blocks(size: int) -> Iterator[torch.Tensor]:
    """Empty blocks that hold so many bytes together."""
    while size > 0:
        yield torch.empty(min(size, BLOCK), dtype=torch.uint8)
        size -= BLOCK
