"""Replace the code in a run's directory, on request or because it is of an older version of fsdpctl."""

from __future__ import annotations

import shutil
from pathlib import Path

from fsdpctl.contract import SCHEMA
from fsdpctl.contract.byte_progress import Progress
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launch.snapshot import copy_package, copy_trainer, take_snapshot
from fsdpctl.runs.record import RunRecord


def replace_code(run: RunPaths, plan: LaunchPlan, progress: Progress) -> None:
    """Build the new snapshot in a temporary directory and swap; if a resume is killed in between, the next one repairs
    it."""
    new = _new_code(run)
    take_snapshot(plan, new, progress)
    if run.code.exists():
        run.code.rename(_old_code(run))
    new.code.rename(run.code)
    shutil.rmtree(_old_code(run), ignore_errors=True)
    shutil.rmtree(new.root)


def repair_code(run: RunPaths) -> None:
    """Finish what a killed `replace_code` left between its two renames."""
    if not run.code.exists() and _old_code(run).exists():
        _old_code(run).rename(run.code)
    shutil.rmtree(_old_code(run), ignore_errors=True)


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
    for folder in new.code.iterdir():
        shutil.rmtree(run.code / folder.name, ignore_errors=True)
        folder.rename(run.code / folder.name)
    shutil.rmtree(new.root)


def _new_code(run: RunPaths) -> RunPaths:
    new = RunPaths(run.root / ".new-code")
    shutil.rmtree(new.root, ignore_errors=True)
    new.root.mkdir(mode=0o700)
    return new


def _old_code(run: RunPaths) -> Path:
    return run.root / ".old-code"
