"""The holds of this user: `$FSDPCTL_HOME/holds/` has a small file with the directory of each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from fsdpctl.contract.codec import write_json, write_text
from fsdpctl.contract.files import read_bytes, take_lock
from fsdpctl.contract.paths import DIR_MODE, HoldPaths
from fsdpctl.errors import BusyError, UsageError
from fsdpctl.holds.record import Hold
from fsdpctl.runs.registry import home


def list_holds() -> list[HoldPaths]:
    """Return all holds, by name; not those that were only half made."""
    try:
        names = sorted(name for name in os.listdir(_pointers()) if not name.startswith("."))
    except FileNotFoundError:
        return []
    holds = []
    for name in names:
        with suppress(FileNotFoundError):  # removed in between
            holds.append(HoldPaths(Path(os.fsdecode(read_bytes(_pointers() / name)).strip())))
    return [hold for hold in holds if hold.record.exists()]


def create(hold: HoldPaths, record: Hold, fill: Callable[[HoldPaths], None]) -> None:
    """Make the directory of a hold, with its pointer last but one, so that a killed command leaves nothing visible."""
    hold.root.mkdir(mode=DIR_MODE, parents=True)
    fill(hold)
    _pointers().mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    write_text(_pointers() / record.name, f"{hold.root}\n")
    write_json(hold.record, record)


def remove(hold: HoldPaths) -> None:
    """Forget a hold that has ended. Its fork servers end as their records are gone."""
    shutil.rmtree(hold.root, ignore_errors=True)
    (_pointers() / hold.root.name).unlink(missing_ok=True)


@contextmanager
def changing() -> Iterator[None]:
    """Hold the lock of the list: one command takes nodes at a time. Raise BusyError."""
    _pointers().mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    with _lock(_pointers() / ".lock", "another command takes nodes; try again in a moment"):
        yield


@contextmanager
def entering(hold: HoldPaths) -> Iterator[None]:
    """Hold the lock of a hold: one command starts a run in it, or releases it, at a time. Raise BusyError, and
    UsageError if it has ended.
    """
    ended = UsageError(f"hold {hold.root.name} has ended", hint="fsdpctl holds")
    if not hold.root.is_dir():
        raise ended
    with _lock(hold.lock, f"another command uses hold {hold.root.name}; try again in a moment"):
        if not hold.record.exists():  # released since this command has read it
            raise ended
        yield


@contextmanager
def _lock(path: Path, busy: str) -> Iterator[None]:
    if (descriptor := take_lock(path)) is None:
        raise BusyError(busy)
    try:
        yield
    finally:
        os.close(descriptor)


def _pointers() -> Path:
    return home() / "holds"
