"""Copying the newest checkpoint between nodes that share no disk, where each node saves a whole copy.

At the start a node without the newest one gets it from another node, over the network of the ranks, with the metrics
that lead to it.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist

from fsdpctl.contract.formats.manifest import InvalidCheckpointError, Manifest, verify_files
from fsdpctl.contract.formats.removal import temporary_of
from fsdpctl.contract.paths import checkpoint_name
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints
from train.errors import TrainError
from train.parallel.world import CONTROL_TIMEOUT, World

log = logging.getLogger(__name__)

BLOCK_BYTES = 16 * 2**20


@dataclass(frozen=True)
class NodeCopy:
    """One node's newest checkpoint that is intact, and the size of its metrics file."""

    manifest: Manifest | None
    metrics_size: int

    @property
    def version(self) -> tuple[int, int]:
        """Step and attempt: what two attempts saved after the same step need not be the same to the bit."""
        return (self.manifest.step, self.manifest.attempt) if self.manifest else (-1, 0)


def share_newest(
    checkpoints: VerifiedCheckpoints, own: Manifest | None, world: World, sign: Callable[[], None]
) -> Manifest | None:
    """Give every node the newest checkpoint of any node, and return its manifest. Collective.

    `own`: the newest one of this node. `sign` is called after each block that is sent or received.
    Raises TrainError on every rank where a node cannot store it.
    """
    metrics = checkpoints.paths.metrics
    size = metrics.stat().st_size if metrics.exists() else 0
    copies = world.gather(NodeCopy(own, size))[:: world.rank_info.local_world_size]  # by node
    giver, takers = choose(copies)
    newest = copies[giver].manifest
    if newest is None or not takers:
        return newest
    name, nodes, began = checkpoint_name(newest.step), ", ".join(map(str, takers)), time.perf_counter()
    log.info("node %s is without %s (%.1f MB), which node %d has", nodes, name, newest.num_bytes / 1e6, giver)
    broadcast = _FileBroadcast(sign, *(world.rank_info.ranks_of(node)[0] for node in (giver, *takers)))
    if world.is_writer and world.rank_info.node == giver:
        broadcast.send(_files(checkpoints.root / name, newest, metrics, copies[giver].metrics_size))
    takes = world.is_writer and world.rank_info.node in takers
    world.on_all(lambda: _fetch(checkpoints, copies[giver], broadcast) if takes else None)
    log.info("node %s got %s from node %d in %.1f s", nodes, name, giver, time.perf_counter() - began)
    return newest


def choose(copies: Sequence[NodeCopy]) -> tuple[int, list[int]]:
    """Return the node that gives its copy, and those that take it, of what each node has."""
    newest = max(copy.version for copy in copies)
    holders = [node for node, copy in enumerate(copies) if copy.version == newest]
    return holders[0], [node for node in range(len(copies)) if node not in holders]


def _files(directory: Path, manifest: Manifest, metrics: Path, metrics_size: int) -> list[tuple[Path, int]]:
    """Return the files to send, in this order, and the size of each."""
    return [*((directory / name, entry.size) for name, entry in manifest.files.items()), (metrics, metrics_size)]


def _fetch(checkpoints: VerifiedCheckpoints, copy: NodeCopy, broadcast: _FileBroadcast) -> None:
    """Receive a checkpoint under a temporary name, verify it, and commit it as if it had been saved here."""
    manifest = copy.manifest
    assert manifest is not None
    name = checkpoint_name(manifest.step)
    temporary = temporary_of(checkpoints.root / name, checkpoints.attempt)
    metrics = temporary / checkpoints.paths.metrics.name
    try:
        with suppress(OSError):  # each file will raise it again, and all blocks must be received first
            temporary.mkdir(mode=0o700, parents=True)
        broadcast.receive(_files(temporary, manifest, metrics, copy.metrics_size))
        verify_files(temporary, manifest.files.items())
        metrics.replace(checkpoints.paths.metrics)
        checkpoints.commit(temporary, manifest)
        checkpoints.invalid.discard(name)
    except OSError as error:
        raise TrainError(f"{name} cannot be copied to {checkpoints.root}: {error.strerror}") from None
    except InvalidCheckpointError as error:
        raise TrainError(f"the copy of {name} in {checkpoints.root} is damaged: {error}") from None
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


class _FileBroadcast:
    """Sends files from one rank to some others. Made by all ranks together."""

    def __init__(self, sign: Callable[[], None], source: int, *receivers: int) -> None:
        self._sign, self._source = sign, source
        self._group = dist.new_group([source, *receivers], backend="gloo", timeout=CONTROL_TIMEOUT)

    def send(self, files: list[tuple[Path, int]]) -> None:
        for path, size in files:
            with open(path, "rb") as file:
                for block in _blocks(size):
                    num_bytes = file.readinto(block.numpy().data)
                    block[num_bytes:] = 0  # of a file that has become shorter; who receives it verifies it
                    dist.broadcast(block, self._source, self._group)
                    self._sign()

    def receive(self, files: list[tuple[Path, int]]) -> None:
        """Write what `send` sends. Raises the first OSError, after all has arrived: no rank waits for this one."""
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
            self._sign()
            yield block


def _blocks(size: int) -> Iterator[torch.Tensor]:
    """Yield empty blocks of `size` bytes in all."""
    while size > 0:
        yield torch.empty(min(size, BLOCK_BYTES), dtype=torch.uint8)
        size -= BLOCK_BYTES
