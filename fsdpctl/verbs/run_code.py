"""Replace the code in a run's directory, on request or because it is of an older version of fsdpctl.

Ranks of own scripts run in the copy of their project, and write there: only what copies brought is replaced.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from fsdpctl.contract import SCHEMA
from fsdpctl.contract.byte_progress import Progress
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import DIR_MODE, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import UsageError
from fsdpctl.launch.snapshot import copy_package, copy_trainer, take_snapshot
from fsdpctl.node.queries.receive_files import find_extra, find_kept, find_missing, inventory, put, remove_file
from fsdpctl.runs.copied import CopiedFiles, read_copied
from fsdpctl.runs.record import RunRecord


def prepare_code(run: RunPaths, plan: LaunchPlan, created: float, progress: Progress) -> list[str]:
    """Make a new copy beside the old one; return the project's files that will stay as a rank has changed them.

    Raise UsageError for files that both a rank and the project have changed. `created`: when the run was.
    """
    new = _new_code(run)
    try:
        take_snapshot(plan, new, progress)
        if (copy := read_copied(new)) is None:
            return []
        before = read_copied(run) or _guess_copied(run, copy.wanted, created)
        kept = _find_kept(run, before, copy.wanted)
        write_json(new.copied, before.followed_by(copy.wanted))
    except BaseException:
        shutil.rmtree(new.root, ignore_errors=True)
        raise
    return kept


def replace_code(run: RunPaths) -> None:
    """Take the copy of `prepare_code`. Its rename decides: after a kill, `repair_code` does the rest."""
    _new_code_root(run).rename(_incoming(run).root)
    repair_code(run)


def repair_code(run: RunPaths) -> None:
    """Finish what a killed `replace_code` left, or one of an older version between its two renames."""
    if not run.code.exists() and (old := run.root / ".old-code").exists():
        old.rename(run.code)
    new = _incoming(run)
    if not new.root.exists():
        return
    if (copied := read_copied(new)) is not None:
        write_json(run.copied, copied)
        _replace_project(run, new, copied)
        for of_new, of_run in ((new.git, run.git), (new.git_diff, run.git_diff)):
            _replace_file(of_new, of_run)
    _replace_packages(run, new)
    new.root.rename(_new_code_root(run))
    shutil.rmtree(_new_code_root(run))


def is_older(record: RunRecord) -> bool:
    """Return whether the run's code is of a version that cannot read what this one writes."""
    return record.schema < SCHEMA


def bring_up_to_date(run: RunPaths, plan: LaunchPlan) -> None:
    """Replace fsdpctl itself in the run's code; the user's project stays. It may be repeated after a kill, because the
    run's record gets this version only afterwards."""
    new = _new_code(run)
    copy_package(new)
    if plan.entry.is_bundled_trainer:
        copy_trainer(new)
    _replace_packages(run, new)
    shutil.rmtree(new.root)


def _replace_file(new: Path, old: Path) -> None:
    """Copy the new file, because this may be repeated after a kill; without one the old one is out of date."""
    if new.exists():
        shutil.copyfile(new, old)
    else:
        old.unlink(missing_ok=True)


def _replace_packages(run: RunPaths, new: RunPaths) -> None:
    run.code.mkdir(mode=DIR_MODE, exist_ok=True)  # it may be missing
    for folder in new.code.iterdir():
        if folder != new.source:
            shutil.rmtree(run.code / folder.name, ignore_errors=True)
            folder.rename(run.code / folder.name)


def _replace_project(run: RunPaths, new: RunPaths, copied: CopiedFiles) -> None:
    for name in find_extra(run.root, (), copied.wanted, copied.identities):
        remove_file(run.root, name)
    run.source.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    for name in find_missing(run.root, copied.wanted, copied.identities):
        (run.root / name).parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        put(new.root / name, run.root / name)


def _find_kept(run: RunPaths, before: CopiedFiles, wanted: Mapping[str, str]) -> list[str]:
    """Return the files that a rank has changed. Raise UsageError if the project has changed them too."""
    changed = find_kept(run.root, wanted, {**dict.fromkeys(wanted, ()), **before.identities})
    both = [name for name in changed if before.identities.get(name, ("",))[-1] != wanted[name]]
    if both:
        raise UsageError(
            f"ranks of {run.root.name} have written files that differ from those of the project: {', '.join(both[:9])}",
            hint=f"nothing was replaced; move or delete those that you do not need, in {run.root} or in the project",
        )
    return changed


def _guess_copied(run: RunPaths, wanted: Mapping[str, str], created: float) -> CopiedFiles:
    """Return what the copy of an older version has brought, which left no record: files older than the run, as copies
    keep their times. An old file that the project does not have may be of a rank, from an archive."""
    found = inventory(run.root, wanted).items()
    return CopiedFiles().followed_by({name: of for name, of in found if (run.root / name).lstat().st_mtime < created})


def _new_code(run: RunPaths) -> RunPaths:
    new = RunPaths(_new_code_root(run))
    shutil.rmtree(new.root, ignore_errors=True)
    new.root.mkdir(mode=DIR_MODE)
    return new


def _new_code_root(run: RunPaths) -> Path:
    return run.root / ".new-code"


def _incoming(run: RunPaths) -> RunPaths:
    return RunPaths(run.root / ".incoming-code")
