"""Where nodes share no disk, each saves a whole copy. At the start a node that lacks the newest one gets it from
another, over the network that the ranks talk on, with the metrics that lead to it.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from fsdpctl.contract.formats.manifest import Manifest, verify_files
from fsdpctl.contract.paths import checkpoint_name
from train.checkpoint.checkpoints import Checkpoints
from train.errors import TrainError
from train.parallel.world import CONTROL_TIMEOUT, World

log = logging.getLogger(__name__)

BLOCK = 16 * 2**20


@dataclass(frozen=True)
class Copy:
    """What one node has: its newest checkpoint that is intact, and so many bytes of metrics."""

    manifest: Manifest | None
    metrics_size: int

    @property
    def version(self) -> tuple[int, int]:
        """Step and attempt: what two attempts saved after the same step need not be the same to the bit."""
        return (self.manifest.step, self.manifest.attempt) if self.manifest else (-1, 0)


def share_newest(checkpoints: Checkpoints, own: Manifest | None, world: World) -> Manifest | None:
    """Give every node the newest checkpoint of any node. `own`: the newest one of this node."""
    metrics = checkpoints.paths.metrics
    size = metrics.stat().st_size if metrics.exists() else 0
    copies = world.gather(Copy(own, size))[:: world.place.local_world]  # by node
    giver, takers = choose(copies)
    newest = copies[giver].manifest
    if newest is None or not takers:
        return newest
    name, nodes, began = checkpoint_name(newest.step), ", ".join(map(str, takers)), time.perf_counter()
    log.info("node %s lacks %s (%.1f MB), which node %d has", nodes, name, newest.num_bytes / 1e6, giver)
    wire = _Wire(*(world.place.ranks_of(node)[0] for node in (giver, *takers)))
    if world.is_scribe and world.place.node == giver:
        wire.send(_files(checkpoints.root / name, newest, metrics, copies[giver].metrics_size))
    takes = world.is_scribe and world.place.node in takers
    world.on_all(lambda: _fetch(checkpoints, copies[giver], wire) if takes else None)
    log.info("node %s got %s from node %d in %.1f s", nodes, name, giver, time.perf_counter() - began)
    return newest


def choose(copies: Sequence[Copy]) -> tuple[int, list[int]]:
    """Of what the nodes have: the node that gives its copy, and those that take it."""
    newest = max(copy.version for copy in copies)
    holders = [node for node, copy in enumerate(copies) if copy.version == newest]
    return holders[0], [node for node in range(len(copies)) if node not in holders]


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

    def __init__(self, source: int, *receivers: int) -> None:
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
