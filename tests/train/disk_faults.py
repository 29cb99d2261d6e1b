"""Faults of the disk while a run saves. Each is called in the rank's process, before the trainer begins."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fsdpctl.contract.formats import manifest
from train.checkpoint.verified_checkpoints import VerifiedCheckpoints


def disk_full_from_to(disk: str, first: int, end: int) -> None:
    """Fill the disk when step `first` is saved, and free it for step `end`."""
    ballast = Path(disk, "ballast")

    def act(step: int) -> None:
        if step == first and os.environ["RANK"] == "0":
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
        if step == end:
            ballast.unlink(missing_ok=True)

    _before_save(act)


def read_only_from(disk: str, step: int) -> None:
    """Make the disk read-only before step `step` is saved."""
    remount = ["mount", "-o", "remount,ro", disk]
    _before_save(lambda at: subprocess.run(remount, check=True) if at == step else None)


def checkpoints_removed_at(directory: str, step: int) -> None:
    """Take the directory away before step `step` is saved, at once as a mount goes away."""
    _before_save(lambda at: Path(directory).rename(f"{directory}-gone") if at == step else None)


def checkpoints_removed_twice(directory: str, step: int, name: str) -> None:
    """Remove the directory before step `step` is saved, and again as soon as checkpoint `name` is there."""
    checkpoints_removed_at(directory, step)
    original = VerifiedCheckpoints.commit

    def commit(self: Any, temporary: Path, manifest: Any) -> None:
        original(self, temporary, manifest)
        if Path(directory, name).exists():
            shutil.rmtree(directory)

    VerifiedCheckpoints.commit = commit  # type: ignore[method-assign]


def reads_fail(rank: int, number: int, at: str) -> None:
    """Let reads of whole files below the path `at` fail on one rank, as of a file server or a disk."""
    digest_file = manifest.digest_file

    def fail(path: Path) -> manifest.FileDigest:
        if os.environ["RANK"] == str(rank) and path.is_relative_to(at):
            raise OSError(number, os.strerror(number), str(path))
        return digest_file(path)

    manifest.digest_file = fail


def _before_save(act: Callable[[int], Any]) -> None:
    original = VerifiedCheckpoints.save

    def save(self: Any, manifest: Any, staged: Any, beforehand: Any) -> Any:
        act(manifest.step)
        self.group.gather(0)  # on all ranks before any continues
        return original(self, manifest, staged, beforehand)

    VerifiedCheckpoints.save = save  # type: ignore[method-assign]
