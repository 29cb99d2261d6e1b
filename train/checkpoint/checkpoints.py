"""Checkpoints that are whole or absent.

Save: every rank writes into a new directory under a name that no reader accepts; then rank 0 adds the manifest, with
the digest of each file, flushes, and renames. Nothing is ever written into a directory that has its final name.
Load: the newest directory whose manifest and digests hold, chosen on rank 0; at any number of ranks.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from fsdpctl.contract.formats.manifest import (
    COMMITTED,
    FileDigest,
    InvalidCheckpointError,
    Manifest,
    committed,
    digest_file,
    read_manifest,
    remove_checkpoint,
    verify_files,
    write_manifest,
)
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from train.checkpoint.dcp_io import MAX_PARTS, StorageError, read_tensors, share_out, write_tensors, written_by
from train.checkpoint.staging import Piece
from train.errors import TrainError
from train.parallel.world import Council
from train.threads import at_once

log = logging.getLogger(__name__)


class StaleAttemptError(TrainError):
    """A newer attempt of this run exists: this one must change nothing any more."""


class Checkpoints:
    """The checkpoints of one run, as one attempt of it sees them."""

    def __init__(self, paths: RunPaths, council: Council, attempt: int, keep: int) -> None:
        self.paths, self.root = paths, paths.checkpoints
        self.council = council
        self.attempt = attempt
        self.keep = keep
        self.resumed_from: str | None = None
        self.invalid: set[str] = set()

    def find_newest(self) -> Manifest | None:
        """The newest checkpoint that is intact. All ranks share the work of reading the digests."""
        rank, world = self.council.place.rank, self.council.place.world
        for name in self.council.on_main(partial(committed, self.root))[::-1]:
            directory = self.root / name
            try:
                manifest = self.council.on_main(partial(read_manifest, directory))
                share = sorted(manifest.files.items())[rank::world]
                self.council.on_all(partial(verify_share, directory, share))
                return manifest
            except InvalidCheckpointError as error:
                self.invalid.add(name)
                if self.council.is_main:
                    log.warning("checkpoint %s is skipped: %s", name, error)
        return None

    def load(self, manifest: Manifest, tensors: dict[str, Tensor]) -> None:
        """Fill `tensors` from a checkpoint that `find_newest` returned."""
        self.resumed_from = checkpoint_name(manifest.step)
        read_tensors(self.root / self.resumed_from, tensors, self.council.control)

    def save(self, manifest: Manifest, pieces: Mapping[str, Piece], written: Callable[[], None]) -> str | None:
        """Save and return the checkpoint's name; None when it could not be written, which was then said loudly.

        `manifest` lacks only the files. Rank 0 calls `written` before the checkpoint gets its name: an OSError fails
        the save.
        """
        name = checkpoint_name(manifest.step)
        began = time.monotonic()
        aside = self.root / self.council.broadcast(f"{name}.tmp-{self.attempt}-{uuid.uuid4().hex[:8]}")
        try:
            self.council.on_main(partial(aside.mkdir, mode=0o700, parents=True))
            write_tensors(aside, pieces, self.council.control)
            files = merge(self.council.on_all(partial(digest_written, aside, self.council.place.rank)))
            save_s = round(time.monotonic() - began, 3)
            self.council.on_main(written)
            self.council.on_main(lambda: self.commit(aside, replace(manifest, files=files, save_s=save_s)))
        except (StorageError, OSError) as error:
            if self.council.is_main:
                log.error("CHECKPOINT OF STEP %d NOT SAVED: %s (training goes on)", manifest.step, error)
            return None
        finally:
            if self.council.is_main:
                shutil.rmtree(aside, ignore_errors=True)  # after a commit it is no longer there
        if self.council.is_main:
            self._prune(name)
        return name

    def remove_leftovers(self) -> None:
        """Remove what earlier attempts left half done. Rank 0, before the first save."""
        if self.root.is_dir():
            for path in self.root.iterdir():
                if COMMITTED.fullmatch(path.name.split(".")[0]) and ".tmp-" in path.name:
                    shutil.rmtree(path, ignore_errors=True)

    def commit(self, aside: Path, manifest: Manifest) -> None:
        """Make a checkpoint of a directory that has all its files. Refused to an attempt that is not the newest."""
        newest = max((attempt.number for attempt in self.paths.attempts()), default=0)
        if 0 < self.attempt < newest:
            raise StaleAttemptError(f"attempt {self.attempt} may not save any more: attempt {newest} has started")
        write_manifest(aside, manifest)
        fsync_directory(aside)
        final = self.root / checkpoint_name(manifest.step)
        damaged = self.root / f"{final.name}.tmp-replaced-{uuid.uuid4().hex[:8]}"
        if final.exists():  # found invalid at start, else training would have begun after it
            final.rename(damaged)
        aside.rename(final)
        fsync_directory(self.root)
        shutil.rmtree(damaged, ignore_errors=True)  # it is as large as the one that took its name

    def _prune(self, newest: str) -> None:
        """Remove what `choose_doomed` says; what lies after this step is not ours to judge."""
        self.invalid.discard(newest)
        try:
            names = committed(self.root)
        except OSError as error:
            log.warning("checkpoints cannot be listed: %s", error)
            return
        known = names[: names.index(newest) + 1] if newest in names else []  # somebody may have taken it away
        for name in choose_doomed(known, self.keep, self.resumed_from, self.invalid):
            try:
                remove_checkpoint(self.root / name)
            except OSError as error:
                log.warning("checkpoint %s cannot be removed: %s", name, error)


def choose_doomed(names: Sequence[str], keep: int, resumed_from: str | None, invalid: Collection[str]) -> list[str]:
    """Of the checkpoints up to the newest, the oldest first, those to remove: all but the newest `keep` valid ones
    and the one that was resumed from."""
    valid = [name for name in names if name not in invalid]
    return [name for name in names if name not in valid[-keep:] and name != resumed_from]


def digest_written(directory: Path, rank: int) -> dict[str, FileDigest]:
    paths = written_by(directory, rank)
    digests = at_once([partial(digest_file, path) for path in paths])
    return {path.name: digest for path, digest in zip(paths, digests, strict=True)}


def verify_share(directory: Path, files: Sequence[tuple[str, FileDigest]]) -> None:
    """Several at once, but no more than a rank writes: of a checkpoint of many ranks, few may read the digests."""
    shares = share_out([expected.size for _, expected in files], MAX_PARTS)
    at_once([partial(verify_files, directory, [files[at] for at in share]) for share in shares])


def merge(parts: list[dict[str, FileDigest]]) -> dict[str, FileDigest]:
    return {name: entry for part in parts for name, entry in part.items()}


def fsync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
