"""gc: remove old run directories and old checkpoints. What is protected is looked at again under each run's lock."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from fsdpctl.checkpoints.checkpoint_store import SharedStore
from fsdpctl.checkpoints.listing import choose_removable
from fsdpctl.contract.codec import CodecError
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.formats.lease import find_leases
from fsdpctl.contract.formats.manifest import committed
from fsdpctl.contract.formats.removal import delete, find_leftovers
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import BusyError, FsdpctlError
from fsdpctl.runs.copied import has_written
from fsdpctl.runs.evidence import read_plan
from fsdpctl.runs.removal import remove, removing, sweep_removed
from fsdpctl.runs.store import Listed, list_runs, locked, open_record
from fsdpctl.verbs.gc_choice import HAS_OTHER_FILES, Action, Choice, Limits, OldRun, choose
from fsdpctl.verbs.needed import Need, read_needs
from fsdpctl.verbs.prune import why_needed, why_not_ended
from fsdpctl.verbs.status import RunStatus, read_status, read_statuses


@dataclass(frozen=True)
class Done:
    """What was done to a run."""

    choice: Choice
    checkpoints: tuple[str, ...] = ()  # that were removed
    problem: str = ""  # why it was left as it is after all, or in part


def plan_gc(limits: Limits) -> list[Choice]:
    """Return what `gc` would do to each run, the oldest first. Nothing is changed."""
    registered = list_runs()
    listed = [one for one in registered if one.record is not None]
    statuses = read_statuses(listed, with_speed=False)
    needs, now = read_needs(), time.time()
    runs = [_look_broken(one) for one in registered if one.record is None]
    for one in listed:
        seen = _look(one, statuses[one.run_id], needs)
        is_recent = limits.older_than_s is not None and now - seen.ended < limits.older_than_s
        is_counted = limits.max_bytes is not None or not (seen.protected or is_recent)
        runs.append(_with_files(seen, one.paths) if is_counted else seen)
    return choose(runs, limits, now)


def act(choices: Iterable[Choice]) -> Iterator[Done]:
    """Do what was chosen, run after run, and first remove what a gc that was killed has left. Raise BusyError."""
    with removing():
        sweep_removed()
        paths = {one.run_id: one.paths for one in list_runs() if one.record is not None}
        for choice in choices:
            if choice.action is not Action.KEEP:
                yield _act_on(choice, paths.get(choice.run.run_id))


def _act_on(choice: Choice, run: RunPaths | None) -> Done:
    if run is None:
        return Done(choice, problem="another command has removed it")
    try:
        with locked(run):
            now = _look(Listed(run.root.name, run, open_record(run)), read_status(run), read_needs())
            if now.protected:
                return Done(choice, problem=now.protected)
            if choice.action is Action.PRUNE:
                return _prune(choice, run)
            if now.has_checkpoint:
                return Done(choice, problem="it has a checkpoint now")
            if _has_other_files(run):
                return Done(choice, problem=HAS_OTHER_FILES)
            remove(run)
            return Done(choice)
    except BusyError:
        return Done(choice, problem="another command is changing it")
    except FileNotFoundError:
        return Done(choice, problem="another command has removed it")
    except (FsdpctlError, CodecError, OSError) as error:
        return Done(choice, problem=str(error))


def _prune(choice: Choice, run: RunPaths) -> Done:
    """Remove all but the newest complete checkpoint, whose bytes are read before."""
    store = SharedStore(run)
    found = store.read()
    removable, broken = choose_removable(found, 1, store.examine)
    if len(broken) == len(found):
        return Done(choice, problem="none of its checkpoints is complete")
    removed: list[str] = []
    problems: list[str] = []
    for stored in removable:
        if why := why_needed(run, stored.path):
            problems.append(f"{stored.path.name} was left: {why}")
        else:
            store.remove(stored)
            removed.append(stored.path.name)
    moved_away = run.all_set_aside()
    for path in [*find_leftovers(run.checkpoints), *moved_away]:
        delete(path)
    return Done(choice, (*removed, *(path.name for path in moved_away)), "; ".join(problems))


def _look(one: Listed, status: RunStatus | str, needs: Sequence[Need]) -> OldRun:
    """Return a run as `choose` needs it, without what must be read of its files, which takes long."""
    assert one.record is not None
    run = one.paths
    seen = OldRun(one.run_id, one.record.job, _last_change(run, one.record.created))
    try:
        plan = read_plan(run)
    except (OSError, CodecError):
        return replace(seen, protected="its plan cannot be read")
    has_checkpoint = bool(committed(run.checkpoints) or run.all_set_aside())
    return replace(seen, has_checkpoint=has_checkpoint, protected=_why_protected(run, status, plan, needs))


def _look_broken(one: Listed) -> OldRun:
    """Return a run whose record cannot be read: whether it is alive, or has checkpoints, is not known."""
    root = one.paths.root
    why = f"it is BROKEN ({one.broken}): whether it has ended is not known; delete {root} where you know that"
    return OldRun(one.run_id, "", 0.0, protected=why)


def _with_files(seen: OldRun, run: RunPaths) -> OldRun:
    names = committed(run.checkpoints)
    older = [run.checkpoints / name for name in names[:-1]]
    prunable = [*older, *find_leftovers(run.checkpoints), *run.all_set_aside()] if names else []
    return replace(
        seen,
        bytes=measure_size(run.root),
        prunable_bytes=sum(map(measure_size, prunable)),
        has_other_files=not (seen.protected or seen.has_checkpoint) and _has_other_files(run),
    )


def _has_other_files(run: RunPaths) -> bool:
    """Return whether a run without checkpoints has files of its script or a user; True where that is not known."""
    try:
        leftovers = find_leftovers(run.checkpoints)
        in_checkpoints = set(run.checkpoints.iterdir() if run.checkpoints.is_dir() else ()) - set(leftovers)
        return bool(run.others() or in_checkpoints) or has_written(run)
    except (OSError, CodecError):
        return True


def _why_protected(run: RunPaths, status: RunStatus | str, plan: LaunchPlan, needs: Sequence[Need]) -> str:
    if isinstance(status, str):
        return status or "its state is not known"
    if run.pinned.exists():
        return "it is pinned"
    if run.root.is_symlink():
        return "its directory is a link to another place"
    if why := why_not_ended(run, status):
        return why
    if not plan.shared_disk:
        return "each of its hosts has a directory of its own"
    if (need := next((need for need in needs if need.is_of(run)), None)) is not None:
        return f"run {need.run_id} needs it"
    if not plan.entry.is_bundled_trainer and run.checkpoints.is_dir() and any(run.checkpoints.iterdir()):
        return "only its script knows which of its checkpoints are complete"
    if any(_is_locked(pending) for pending in run.pending_notices()):
        return "its notices are being sent"
    if leases := find_leases(run.checkpoints):
        return f"{leases[0]} is being read"
    return ""


def _is_locked(path: Path) -> bool:
    """Return whether a process is at work on this file."""
    try:
        descriptor = take_lock(path)
    except OSError:
        return False
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is None


def _last_change(run: RunPaths, created: float) -> float:
    """Return when a run last did anything: the newest of its records."""
    times = [created]
    attempts = run.attempts()
    newest = [attempts[-1].verdict, attempts[-1].outcome, attempts[-1].root] if attempts else []
    for path in (*newest, run.record, run.metrics):
        with suppress(OSError):
            times.append(path.stat().st_mtime)
    return max(times)


def measure_size(path: Path) -> int:
    """Return the bytes on disk of a file or directory; links are not followed, and what is gone has none."""
    total = 0
    pending = [path]
    while pending:
        current = pending.pop()
        with suppress(OSError):
            status = current.lstat()
            total += status.st_blocks * 512
            if current.is_dir() and not current.is_symlink():
                pending += [Path(entry.path) for entry in os.scandir(current)]
    return total
