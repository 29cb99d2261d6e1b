"""Checks of the disk of the run directories: by writing to it, not by its permission bits."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fsdpctl.contract.files import FULL_DISK, count_free_inodes
from fsdpctl.contract.findings import Check, Finding, fail, ok, warn
from fsdpctl.contract.paths import DIR_MODE

MIN_FREE_BYTES = 64 * 2**20
"""Space for logs and records of a run: with less, not even a failure can be recorded."""

LOW_FREE_BYTES = 10 * 2**30
"""Less than one checkpoint of a model of a billion parameters with its optimizer state (16 bytes per parameter)."""

MIN_FREE_FILES = 1000
"""A run writes some hundreds of files: its copy of the code, and records and checkpoints."""

_FIX_SPACE = "free some space, inodes or quota there, or set another `runs_root` in the profile"


def check_storage(directory: Path) -> list[Finding]:
    """Write, flush and rename a file, then check the free space."""
    try:
        _write(directory)
    except OSError as error:
        if error.errno in FULL_DISK:
            return [fail(Check.DISK, f"{directory.parent} is full: {error.strerror}", _FIX_SPACE)]
        reason = f"cannot write in the run directory: {error.strerror}: {directory.parent}"
        return [fail(Check.RUN_ROOT, reason, "give this user the right to write there, or set another `runs_root`")]
    return [ok(Check.RUN_ROOT, f"written, flushed and renamed in {directory.parent}"), _check_space(directory)]


def _write(directory: Path) -> None:
    directory.mkdir(mode=DIR_MODE, exist_ok=True)
    own = os.urandom(4).hex()  # other nodes may try the same directory at the same time
    probe, renamed = directory / f".probe-{own}", directory / f".probe-{own}.renamed"
    try:
        with open(probe, "wb") as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        probe.rename(renamed)
    finally:
        probe.unlink(missing_ok=True)
        renamed.unlink(missing_ok=True)


def _check_space(directory: Path) -> Finding:
    files = count_free_inodes(os.statvfs(directory))
    if files < MIN_FREE_FILES:
        few = f"only {files:.0f} more files can be created in {directory.parent} (inodes)"
        return fail(Check.DISK, few, _FIX_SPACE)
    free = shutil.disk_usage(directory).free
    reason = f"{free / 2**30:.1f} GiB are free in {directory.parent}"
    if free < MIN_FREE_BYTES:
        little = (
            f"only {free // 2**20} MiB are free in {directory.parent}, at least {MIN_FREE_BYTES // 2**20} are needed"
        )
        return fail(Check.DISK, little, _FIX_SPACE)
    if free < LOW_FREE_BYTES:
        return warn(Check.DISK, f"{reason}; checkpoints may not fit", _FIX_SPACE)
    return ok(Check.DISK, reason)
