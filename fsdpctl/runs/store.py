"""The registry and the run directories: create, list, lock.

`$FSDPCTL_HOME/registry/` holds one small pointer file per run, so that runs under any root are found from anywhere.
No database: homes are NFS or Lustre, where renames are safe and SQLite is not.
"""

from __future__ import annotations

import os
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import SCHEMA, Env
from fsdpctl.contract.codec import CodecError, read_json, write_json, write_text
from fsdpctl.contract.files import read_bytes, take_lock
from fsdpctl.contract.formats.removal import delete
from fsdpctl.contract.paths import DIR_MODE, AttemptPaths, RunPaths
from fsdpctl.errors import BusyError, DamagedRegistryWarning, FsdpctlError
from fsdpctl.runs.record import RunRecord, new_run_id

_DEBRIS_AFTER_S = 86_400
_REMOVED = ".removed-"


def home() -> Path:
    """Return `$FSDPCTL_HOME`, else `~/.local/state/fsdpctl`."""
    chosen = os.environ.get(Env.HOME)
    return Path(chosen).absolute() if chosen else Path.home() / ".local" / "state" / "fsdpctl"


def default_runs_root() -> Path:
    return home() / "runs"


@dataclass(frozen=True)
class Listed:
    """One registered run; `record` is None if it cannot be read, and `broken` is the reason."""

    run_id: str
    paths: RunPaths
    record: RunRecord | None
    broken: str | None = None


def claim_run_id(job: str, runs_root: Path) -> str:
    """Draw a run id that no run has."""
    while True:
        run_id = new_run_id(job)
        if not _pointer(run_id).exists() and not (runs_root / run_id).exists():
            return run_id


def create(runs_root: Path, record: RunRecord, fill: Callable[[RunPaths], None]) -> RunPaths:
    """Make a complete run directory; it becomes visible as a whole or not at all.

    `fill` writes the plan, the specs and the snapshot into a temporary directory. The pointer is written before the
    rename: a pointer to nothing is no run, but a run without a pointer could not be found.
    """
    _make_private(runs_root)
    _clear_debris(runs_root)
    temporary = runs_root / f".new-{record.run_id}-{os.getpid()}"
    temporary.mkdir(mode=DIR_MODE)
    try:
        fill(RunPaths(temporary))
        write_json(RunPaths(temporary).record, record)
        _make_private(_pointer(record.run_id).parent)
        write_text(_pointer(record.run_id), f"{runs_root / record.run_id}\n")
        temporary.rename(runs_root / record.run_id)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return RunPaths(runs_root / record.run_id)


def discard(run: RunPaths) -> None:
    """Delete a run of which nothing was started."""
    temporary = run.root.with_name(f".new-{run.root.name}-{os.getpid()}")
    run.root.rename(temporary)
    _pointer(run.root.name).unlink(missing_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)


def remove(run: RunPaths) -> None:
    """Delete a run that has ended; its lock and `removing` are held. Raise OSError.

    Killed at any moment, it leaves the run, or what `sweep_removed` deletes.
    """
    doomed = run.root.with_name(f"{_REMOVED}{run.root.name}")
    run.root.rename(doomed)
    _finish_removal(doomed)


@contextmanager
def removing() -> Iterator[None]:
    """Hold the lock of removals: one command removes runs at a time. Raise BusyError."""
    _make_private(home())
    if (descriptor := take_lock(home() / "remove.lock")) is None:
        raise BusyError("another command is removing runs; try again in a moment")
    try:
        yield
    finally:
        os.close(descriptor)


def sweep_removed() -> None:
    """Delete what removals that were killed have left in the directories of runs; `removing` is held."""
    roots = {default_runs_root(), *(target.parent for pointer in _pointers() if (target := _find_target(pointer)))}
    for root in roots:
        for doomed in root.glob(f"{_REMOVED}*"):
            with suppress(OSError):  # of another user
                _finish_removal(doomed)


def _finish_removal(doomed: Path) -> None:
    """Delete a directory that was renamed, then the pointer of its run."""
    delete(doomed)
    run_id = doomed.name.removeprefix(_REMOVED)
    if not doomed.with_name(run_id).exists():
        _pointer(run_id).unlink(missing_ok=True)


def _find_target(pointer: Path) -> Path | None:
    with suppress(FileNotFoundError):
        return _target(pointer)
    return None


def claim_attempt(run: RunPaths) -> AttemptPaths:
    """Make the next attempt's directory. Its number fences off processes of older attempts."""
    attempts = run.attempts()
    attempt = run.attempt(attempts[-1].number + 1 if attempts else 1)
    attempt.root.mkdir(mode=DIR_MODE, parents=True)
    return attempt


def list_runs() -> list[Listed]:
    """Return all registered runs, the newest first; broken ones at the end.

    Warn of a damaged entry of the registry, and write it again if its run is where other runs are.
    """
    return _newest_first(run for pointer in _pointers() if (run := _read(pointer)) is not None)


def list_runs_in(root: Path) -> list[Listed]:
    """Return all runs in a directory, of any user, the newest first; those that cannot be read at the end."""
    found = []
    for name in os.listdir(root):
        paths = RunPaths(root / name)
        try:
            record = read_record(paths)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            found.append(Listed(name, paths, None, str(error.strerror)))
        except CodecError as error:
            found.append(Listed(name, paths, None, str(error)))
        else:
            if not name.startswith("."):
                found.append(Listed(name, paths, record))
    return _newest_first(found)


def _newest_first(runs: Iterable[Listed]) -> list[Listed]:
    return sorted(runs, key=lambda run: (run.record is not None, run.record.created if run.record else 0), reverse=True)


def run_ids() -> list[str]:
    """Return the ids of the existing runs; no record is read, so it stays quick with thousands."""
    found = []
    for pointer in _pointers():
        with suppress(FileNotFoundError):
            if (root := _find_root(pointer)) is not None and root.is_dir():
                found.append(pointer.name)
    return found


def run_dirs() -> list[RunPaths]:
    """Return the directories of all registered runs, also of those that are gone; no record is read."""
    return [RunPaths(target) for pointer in _pointers() if (target := _find_target(pointer)) is not None]


def read_record(paths: RunPaths) -> RunRecord:
    """Return the record of a run. Raise CodecError if it is unreadable or from a newer fsdpctl, OSError if missing."""
    record = read_json(RunRecord, paths.record)
    if record.schema > SCHEMA:
        raise CodecError(
            f"{paths.record}: written by a newer fsdpctl (schema {record.schema}, this one knows {SCHEMA})"
        )
    return record


def open_record(paths: RunPaths) -> RunRecord:
    """Read the record of a run that the user named. Raise FsdpctlError if it cannot be read."""
    try:
        return read_record(paths)
    except (CodecError, OSError) as error:
        raise FsdpctlError(f"run {paths.root.name} cannot be read: {error}") from None


@contextmanager
def locked(paths: RunPaths) -> Iterator[None]:
    """Hold the run's lock: one command changes a run at a time. It is released when its owner dies, on NFS too."""
    if (descriptor := take_lock(paths.lock)) is None:
        raise BusyError(f"another command is changing run {paths.root.name}; try again in a moment")
    try:
        yield
    finally:
        os.close(descriptor)


def _read(pointer: Path) -> Listed | None:
    name = pointer.name
    try:
        root = _find_root(pointer)
    except FileNotFoundError:
        return None
    if root is None:
        remedy = "write the path of the run directory into it, or delete it if there is none any more"
        return Listed(name, RunPaths(pointer), None, f"{pointer} is damaged; {remedy}")
    if root != _target(pointer):
        _repair(pointer, root)
    paths = RunPaths(root)
    try:
        return Listed(name, paths, read_record(paths))
    except FileNotFoundError:
        # A killed submit, or a run that its owner deleted; but an unmounted root is reported.
        return None if root.parent.is_dir() else Listed(name, paths, None, f"{root.parent} is not there")
    except (CodecError, OSError) as error:
        return Listed(name, paths, None, str(error))


def _pointers() -> list[Path]:
    registry = _registry()
    try:
        return [registry / name for name in os.listdir(registry) if not name.startswith(".")]
    except FileNotFoundError:
        return []


def _find_root(pointer: Path) -> Path | None:
    """Return the run directory of a pointer; of a damaged one, that of its name where other runs are, else None.

    Raise FileNotFoundError if the pointer has just been removed.
    """
    target = _target(pointer)
    if target is not None and target.parent.is_dir():
        return target
    return _search(pointer.name) or target


def _repair(pointer: Path, root: Path) -> None:
    try:
        write_text(pointer, f"{root}\n")
        text = f"{pointer} was damaged; it leads to {root} again"
    except OSError as error:
        text = f"{pointer} is damaged and cannot be written: {error.strerror}; the run is in {root}"
    warnings.warn(text, DamagedRegistryWarning, stacklevel=2)


def _target(pointer: Path) -> Path | None:
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
        targets = [_target(pointer) for pointer in _pointers()]
        roots = dict.fromkeys([default_runs_root(), *(target.parent for target in targets if target is not None)])
        return next((root / run_id for root in roots if RunPaths(root / run_id).record.exists()), None)
    return None


def _pointer(run_id: str) -> Path:
    return _registry() / run_id


def _registry() -> Path:
    return home() / "registry"


def _make_private(directory: Path) -> None:
    directory.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)


def _clear_debris(runs_root: Path) -> None:
    for path in runs_root.glob(".new-*"):
        with suppress(FileNotFoundError):  # renamed in the meantime by another submit
            if time.time() - path.stat().st_mtime > _DEBRIS_AFTER_S:
                shutil.rmtree(path, ignore_errors=True)
