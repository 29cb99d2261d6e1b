"""The directories of runs: create, list, lock."""

from __future__ import annotations

import os
import shlex
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from fsdpctl.contract import SCHEMA
from fsdpctl.contract.codec import CodecError, read_json, write_json, write_text
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.paths import DIR_MODE, AttemptPaths, RunPaths
from fsdpctl.errors import BusyError, FsdpctlError
from fsdpctl.runs.record import RunRecord, new_run_id
from fsdpctl.runs.registry import (
    find_root,
    find_target,
    make_private,
    pointer_of,
    pointers,
    read_target,
    repair,
)

_DEBRIS_AFTER_S = 86_400


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
        if not pointer_of(run_id).exists() and not (runs_root / run_id).exists():
            return run_id


def create(runs_root: Path, record: RunRecord, fill: Callable[[RunPaths], None]) -> RunPaths:
    """Make a complete run directory; it becomes visible as a whole or not at all.

    `fill` writes the plan, the specs and the snapshot into a temporary directory. The pointer is written before the
    rename: a pointer to nothing is no run, but a run without a pointer could not be found.
    """
    make_private(runs_root)
    _clear_debris(runs_root)
    temporary = runs_root / f".new-{record.run_id}-{os.getpid()}"
    temporary.mkdir(mode=DIR_MODE)
    try:
        fill(RunPaths(temporary))
        write_json(RunPaths(temporary).record, record)
        make_private(pointer_of(record.run_id).parent)
        write_text(pointer_of(record.run_id), f"{runs_root / record.run_id}\n")
        temporary.rename(runs_root / record.run_id)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return RunPaths(runs_root / record.run_id)


def discard(run: RunPaths) -> None:
    """Delete a run of which nothing was started."""
    temporary = run.root.with_name(f".new-{run.root.name}-{os.getpid()}")
    run.root.rename(temporary)
    pointer_of(run.root.name).unlink(missing_ok=True)
    shutil.rmtree(temporary, ignore_errors=True)


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
    return _newest_first(run for pointer in pointers() if (run := _read(pointer)) is not None)


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
    for pointer in pointers():
        with suppress(FileNotFoundError):
            if (root := find_root(pointer.name, read_target(pointer))) is not None and root.is_dir():
                found.append(pointer.name)
    return found


def run_dirs() -> list[RunPaths]:
    """Return the directories of all registered runs, also of those that are gone; no record is read."""
    return [RunPaths(target) for pointer in pointers() if (target := find_target(pointer)) is not None]


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
        raise unreadable(paths, str(error)) from None


def unreadable(paths: RunPaths, reason: str) -> FsdpctlError:
    """Return the error of a run whose record cannot be read, with what would end it all the same."""
    attempts = paths.attempts() if paths.root.is_dir() else []  # of a damaged pointer there is none
    remedy = f"; if it still runs, `touch {shlex.quote(str(attempts[-1].abort))}` ends it" if attempts else ""
    return FsdpctlError(f"run {paths.root.name} cannot be read: {reason}{remedy}")


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
        target = read_target(pointer)
    except FileNotFoundError:
        return None
    root = find_root(name, target)
    if root is None:
        remedy = "write the path of the run directory into it, or delete it if there is none any more"
        return Listed(name, RunPaths(pointer), None, f"{pointer} is damaged; {remedy}")
    if root != target:
        repair(pointer, root)
    paths = RunPaths(root)
    try:
        return Listed(name, paths, read_record(paths))
    except FileNotFoundError:
        # A killed submit, or a run that its owner deleted; but an unmounted root is reported.
        return None if root.parent.is_dir() else Listed(name, paths, None, f"{root.parent} is not there")
    except (CodecError, OSError) as error:
        return Listed(name, paths, None, str(error))


def _clear_debris(runs_root: Path) -> None:
    for path in runs_root.glob(".new-*"):
        with suppress(FileNotFoundError):  # renamed in the meantime by another submit
            if time.time() - path.stat().st_mtime > _DEBRIS_AFTER_S:
                shutil.rmtree(path, ignore_errors=True)
