"""The directory of a run's checkpoints, each of which is whole or absent.

Save: every rank writes into a new directory under a name that no reader accepts; then rank 0 adds the manifest, with
the digest of each file, flushes, and renames. Nothing is ever written into a directory that has its final name.
Load: the newest directory whose manifest and digests hold, chosen on rank 0; at any number of ranks.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from torch import Tensor

from fsdpctl.contract.byte_progress import Report
from fsdpctl.contract.formats.lease import LeaseWatch
from fsdpctl.contract.formats.manifest import (
    FileDigest,
    InvalidCheckpointError,
    Manifest,
    UnreadableCheckpointError,
    committed,
    digest_file,
    read_manifest,
    verify_files,
    write_manifest,
)
from fsdpctl.contract.formats.removal import delete, find_leftovers, remove_checkpoint, temporary_of
from fsdpctl.contract.paths import RunPaths, checkpoint_name
from train.checkpoint.dcp_io import MAX_PARTS, StorageError, read_tensors, share_out, write_tensors, written_by
from train.checkpoint.removals import Removals
from train.checkpoint.staging import StagedTensor
from train.checkpoint.threads import run_in_threads
from train.errors import TrainError, unreadable
from train.parallel.world import ControlGroup

log = logging.getLogger(__name__)


class StaleAttemptError(TrainError):
    """A newer attempt of this run exists: this one must change nothing any more."""


class VerifiedCheckpoints:
    """The checkpoints of one run, as one attempt of it sees them."""

    def __init__(
        self,
        paths: RunPaths,
        group: ControlGroup,
        attempt: int,
        keep: int,
        report_saved: Report = lambda num_bytes: None,
    ) -> None:
        self.paths, self.root = paths, paths.checkpoints
        self.group = group
        self.attempt = attempt
        self.keep = keep
        self.report_saved = report_saved
        self.resumed_from: str | None = None
        self.invalid: set[str] = set()
        self.unreadable: set[str] = set()  # of these, the ones that the disk did not return
        self.removals = Removals()
        self.leases = LeaseWatch()

    def find_newest(self) -> Manifest | None:
        """Return the newest checkpoint that is intact. All ranks share the work of reading the digests.

        Raise TrainError on every rank where the disk does not return a file now.
        """
        rank, world_size = self.group.rank, self.group.size
        for name in self._names()[::-1]:
            directory = self.root / name
            try:
                manifest = self.group.on_main(partial(read_manifest, directory))
                share = sorted(manifest.files.items())[rank::world_size]
                self.group.on_all(partial(verify_share, directory, share))
                return manifest
            except InvalidCheckpointError as error:
                self._skip(name, error)
        return None

    def _names(self) -> list[str]:
        try:
            return self.group.on_main(partial(committed, self.root))
        except OSError as error:
            raise unreadable(f"{self.root}: {error.strerror}", error) from None

    def _skip(self, name: str, error: InvalidCheckpointError) -> None:
        """Leave a checkpoint out, but not for an error that passes: the run would lose the steps that it has.

        One whose file gives EIO is left out, or a bad block would keep the run from ever continuing.
        """
        if isinstance(error, UnreadableCheckpointError):
            if error.passes:
                raise TrainError(f"checkpoint {name} cannot be read now: {error}") from None
            self.unreadable.add(name)
        self.invalid.add(name)
        if self.group.is_main:
            log.warning("checkpoint %s is skipped: %s", name, error)

    def load(self, manifest: Manifest, tensors: dict[str, Tensor], sign: Callable[[], None]) -> None:
        """Fill `tensors` from a checkpoint that `find_newest` returned; `sign` is called after each."""
        self.resumed_from = checkpoint_name(manifest.step)
        read_tensors(self.root / self.resumed_from, tensors, self.group.process_group, sign)

    def save(self, manifest: Manifest, staged: Mapping[str, StagedTensor], written: Callable[[], None]) -> str | None:
        """Save and return the checkpoint's name; None when it could not be written, which is logged as an error.

        `manifest` is complete except for its files. Rank 0 calls `written` before the checkpoint gets its name: an
        OSError fails the save.
        """
        name = checkpoint_name(manifest.step)
        began = time.monotonic()
        temporary = self.group.broadcast(temporary_of(self.root / name, self.attempt))
        try:
            self.group.on_main(partial(temporary.mkdir, mode=0o700, parents=True))
            write_tensors(temporary, staged, self.group.process_group, self.report_saved)
            files = merge(self.group.on_all(partial(digest_written, temporary, self.group.rank)))
            save_s = round(time.monotonic() - began, 3)
            self.group.on_main(written)
            self.group.on_main(lambda: self.commit(temporary, replace(manifest, files=files, save_s=save_s)))
        except (StorageError, OSError) as error:
            if self.group.is_main:
                log.error("CHECKPOINT OF STEP %d NOT SAVED: %s (training continues)", manifest.step, error)
            return None
        finally:
            if self.group.is_main and temporary.exists():  # not after a commit
                self.removals.request(partial(delete, temporary, self.removals.note_file))
        if self.group.is_main:
            self.removals.request(partial(self._prune, name))
        return name

    def remove_leftovers(self) -> None:
        """Remove, beside training, what earlier attempts left half done. Rank 0, before the first save."""
        for path in find_leftovers(self.root):
            self.removals.request(partial(delete, path, self.removals.note_file))

    def commit(self, temporary: Path, manifest: Manifest) -> None:
        """Make a checkpoint of a directory that has all its files.

        Raises StaleAttemptError where this attempt is not the newest, and OSError.
        """
        newest = max((attempt.number for attempt in self.paths.attempts()), default=0)
        if 0 < self.attempt < newest:
            raise StaleAttemptError(f"attempt {self.attempt} may not save any more: attempt {newest} has started")
        write_manifest(temporary, manifest)
        fsync_directory(temporary)
        final = self.root / checkpoint_name(manifest.step)
        if os.path.lexists(final):  # found invalid at start, else training would have begun after it
            damaged = temporary_of(final, "replaced")
            final.rename(damaged)
            self.removals.request(partial(delete, damaged, self.removals.note_file))
        temporary.rename(final)
        fsync_directory(self.root)

    def _prune(self, newest: str) -> None:
        """Remove what `choose_pruned` returns, but nothing of later steps, and nothing that a command reads now."""
        self.invalid.discard(newest)
        names = committed(self.root)
        known = names[: names.index(newest) + 1] if newest in names else []  # it may have been removed meanwhile
        being_read = self.leases.find_leased(self.root)
        for name in choose_pruned(known, self.keep, self.resumed_from, self.invalid):
            if name in being_read:
                log.info("checkpoint %s is kept while a command reads it", name)
                continue
            try:
                left = remove_checkpoint(self.root / name, self.removals.note_file)
            except OSError as error:
                log.warning("checkpoint %s cannot be removed: %s", name, error)
                continue
            if left is not None:
                log.warning("checkpoint %s was a link and is removed; its files are still in %s", name, left)


def choose_pruned(names: Sequence[str], keep: int, resumed_from: str | None, invalid: Collection[str]) -> list[str]:
    """Return which checkpoints to remove, of those up to the newest, the oldest first.

    The newest `keep` valid ones and the one that was resumed from stay.
    """
    valid = [name for name in names if name not in invalid]
    return [name for name in names if name not in valid[-keep:] and name != resumed_from]


def digest_written(directory: Path, rank: int) -> dict[str, FileDigest]:
    """Return the digest of each file that `rank` wrote, by file name."""
    paths = written_by(directory, rank)
    digests = run_in_threads([partial(digest_file, path) for path in paths])
    return {path.name: digest for path, digest in zip(paths, digests, strict=True)}


def verify_share(directory: Path, files: Sequence[tuple[str, FileDigest]]) -> None:
    """Verify several files at once, in no more threads than a rank writes files: a few ranks may read those of many.

    Raises InvalidCheckpointError.
    """
    shares = share_out([expected.size for _, expected in files], MAX_PARTS)
    run_in_threads([partial(verify_files, directory, [files[at] for at in share]) for share in shares])


def merge(parts: list[dict[str, FileDigest]]) -> dict[str, FileDigest]:
    """Return one mapping of all."""
    return {name: entry for part in parts for name, entry in part.items()}


def fsync_directory(path: Path) -> None:
    """Flush a directory's entries to disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
