"""Removing a checkpoint: renamed first, because half removed it must not look like one, and then deleted.

A checkpoint may be a link to a directory elsewhere, where a user has moved it. Only the link is removed then.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from pathlib import Path

from fsdpctl.contract.formats.manifest import COMMITTED

_TEMPORARY = ".tmp-"


def temporary_of(directory: Path, purpose: object) -> Path:
    """Return a new name beside a checkpoint, which no reader takes for one, and which the next start removes."""
    return directory.with_name(f"{directory.name}{_TEMPORARY}{purpose}-{uuid.uuid4().hex[:8]}")


def find_leftovers(root: Path) -> list[Path]:
    """Return what saves and removals have left half done; nothing may be saving or removing now."""
    if not root.is_dir():
        return []
    return [path for path in root.iterdir() if is_temporary(path.name)]


def is_temporary(name: str) -> bool:
    return _TEMPORARY in name and COMMITTED.fullmatch(name.split(".")[0]) is not None


def remove_checkpoint(directory: Path, sign: Callable[[], None] = lambda: None) -> Path | None:
    """Remove a checkpoint. Return the directory that is left if it was a link. Raise OSError.

    `sign` is called after each file.
    """
    doomed = temporary_of(directory, "pruned")
    directory.rename(doomed)
    return delete(doomed, sign)


def delete(path: Path, sign: Callable[[], None] = lambda: None) -> Path | None:
    """Delete a directory, or a link; return where the link led. Raise OSError.

    `sign` is called after each file of the directory.
    """
    if not path.is_symlink():
        for entry in path.iterdir():
            if entry.is_symlink() or not entry.is_dir():
                entry.unlink()
                sign()
        shutil.rmtree(path)
        return None
    target = path.resolve()
    path.unlink()
    return target
