"""The code that a run runs, copied into its directory: an edit after submit never changes a queued or resumed run."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from fsdpctl import bundled
from fsdpctl.contract import BUNDLED_TRAINER
from fsdpctl.contract.paths import DIR_MODE, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import UsageError

NODE_SIDE = ("__init__.py", "torchrun.py", "contract", "node")
"""What of this package runs on nodes; `tests/unit/test_snapshot.py` proves that it needs nothing else."""

MAX_FILES = 20_000
MAX_BYTES = 512 * 2**20


def take_snapshot(plan: LaunchPlan, run: RunPaths) -> None:
    """Copy the node side and the trainer, or the user's project, into `run.code`."""
    package = run.code / "fsdpctl"
    package.mkdir(mode=DIR_MODE, parents=True)
    for name in NODE_SIDE:
        _copy(Path(__file__).parent / name, package / name)
    if plan.entry.target == BUNDLED_TRAINER:
        _copy(bundled.train_dir(), run.code / BUNDLED_TRAINER)
    else:
        _copy_project(Path(plan.submit_dir), run.source)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copyfile(source, target)


def _copy_project(root: Path, target: Path) -> None:
    files = list_project(root)
    sizes = [(root / name).stat().st_size for name in files]
    if len(files) > MAX_FILES or sum(sizes) > MAX_BYTES:
        raise UsageError(
            f"{root} has {len(files)} files and {sum(sizes) // 2**20} MiB, too much to copy into each run",
            hint="submit from your project's folder; files that git ignores are left out",
        )
    target.mkdir(mode=DIR_MODE, parents=True)
    for name in files:
        (target / name).parent.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
        shutil.copyfile(root / name, target / name)


def list_project(root: Path) -> list[str]:
    """Regular files below `root`: what git tracks or would track; without git, everything but hidden files."""
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(git, capture_output=True, check=True, timeout=60).stdout
        names = {name for name in listing.decode("utf-8", errors="surrogateescape").split("\0") if name}
    except (OSError, subprocess.SubprocessError):
        found = (path.relative_to(root) for path in root.rglob("*"))
        names = {str(path) for path in found if not any(part.startswith(".") for part in path.parts)}
    return sorted(name for name in names if (root / name).is_file() and not (root / name).is_symlink())
