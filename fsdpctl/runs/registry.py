"""The registry: `$FSDPCTL_HOME/registry/` holds one small file for each run, with the path of its directory.

So runs under any root are found from anywhere. No database: homes are NFS or Lustre, where renames are safe and SQLite
is not.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.codec import write_text
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import DIR_MODE, RunPaths
from fsdpctl.errors import DamagedRegistryWarning, UsageError


def home() -> Path:
    """Return `$FSDPCTL_HOME`, else `~/.local/state/fsdpctl`. Raise UsageError for a user without a home directory."""
    if chosen := os.environ.get(Env.HOME):
        return Path(chosen).absolute()
    try:
        return Path.home() / ".local" / "state" / "fsdpctl"
    except RuntimeError:  # a user id without an entry, as in some containers
        raise UsageError("this user has no home directory", hint=f"set {Env.HOME}, or HOME, to a directory") from None


def default_runs_root() -> Path:
    """Return the directory of runs whose profile has no `runs_root`."""
    return home() / "runs"


def pointers() -> list[Path]:
    """Return the file of each run; one may be gone by the time that it is read."""
    registry = _registry()
    try:
        return [registry / name for name in os.listdir(registry) if not name.startswith(".")]
    except FileNotFoundError:
        return []


def pointer_of(run_id: str) -> Path:
    """Return the file of a run, which need not exist."""
    return _registry() / run_id


def find_root(run_id: str, target: Path | None) -> Path | None:
    """Return the directory of a run whose pointer has `target`; if that is damaged, the one of the run's name where
    other runs are, else None.
    """
    if target is not None and target.parent.is_dir():
        return target
    return _search(run_id) or target


def find_target(pointer: Path) -> Path | None:
    """Return the path in a pointer; None if it is damaged or gone."""
    with suppress(FileNotFoundError):
        return read_target(pointer)
    return None


def repair(pointer: Path, root: Path) -> None:
    """Write a damaged pointer again, and warn of it."""
    try:
        write_text(pointer, f"{root}\n")
        text = f"{pointer} was damaged; it leads to {root} again"
    except OSError as error:
        text = f"{pointer} is damaged and cannot be written: {error.strerror}; the run is in {root}"
    warnings.warn(text, DamagedRegistryWarning, stacklevel=2)


def make_private(directory: Path) -> None:
    """Make a directory for its owner only, if it does not exist."""
    directory.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)


def read_target(pointer: Path) -> Path | None:
    """Return the path in a pointer; None if it is damaged. Raise FileNotFoundError."""
    try:
        target = Path(os.fsdecode(read_bytes(pointer)).strip())
    except FileNotFoundError:
        raise
    except OSError:
        return None
    return target if target.is_absolute() and target.name == pointer.name else None


def _search(run_id: str) -> Path | None:
    """Return the directory of a run, from those that have other runs."""
    with suppress(FileNotFoundError):
        targets = [read_target(pointer) for pointer in pointers()]
        roots = dict.fromkeys([default_runs_root(), *(target.parent for target in targets if target is not None)])
        return next((root / run_id for root in roots if RunPaths(root / run_id).record.exists()), None)
    return None


def _registry() -> Path:
    return home() / "registry"
