"""Copy the code of a run into its directory: an edit after submit never changes a queued or resumed run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path, PurePath
from typing import NoReturn

from fsdpctl.contract import BUNDLED_TRAINER, NODE_FOLDERS, NODE_MODULES, RANK_FOLDERS
from fsdpctl.contract.byte_progress import Meter, Progress, Report, ignore
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import DIR_MODE, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.errors import UsageError
from fsdpctl.launch.git_facts import record_git
from fsdpctl.runs.copied import CopiedFiles, inventory_project
from fsdpctl.specs import bundled

PACKAGE = Path(__file__).parent.parent
"""The folder of this package."""

SECRETS = (".env", ".env.*", ".netrc", ".pypirc", ".git-credentials", "id_rsa*", "id_ed25519*", "*.pem", "*.key")
"""Files with keys and passwords: left out of every copy, even if git tracks them. Use `pass_env` for secrets."""

MAX_FILES = 20_000
MAX_BYTES = 512 * 2**20
_HINT = "submit from your project's folder; with git, ignored files are left out, else only hidden ones"
_BLOCK = 4 * 2**20


def take_snapshot(plan: LaunchPlan, run: RunPaths, progress: Progress = ignore) -> None:
    """Copy the node side and the trainer, or the user's project, into `run.code`; `progress` is of the latter."""
    copy_package(run)
    if plan.entry.is_bundled_trainer:
        copy_trainer(run)
    elif not plan.entry.is_bundled:
        _copy_project(Path(plan.submit_dir), run.source, progress)
        write_json(run.copied, CopiedFiles().followed_by(inventory_project(run)))
        record_git(Path(plan.submit_dir), run, SECRETS)


def copy_package(run: RunPaths) -> None:
    """Copy the part of this package that runs on nodes."""
    _copy(PACKAGE, _with_byte_code(PACKAGE, node_side()), run.code / PACKAGE.name)


def copy_trainer(run: RunPaths) -> None:
    """Copy the bundled trainer."""
    trainer = bundled.train_dir()
    _copy(trainer, _with_byte_code(trainer, _python_files(trainer)), run.code / BUNDLED_TRAINER)


def node_side() -> list[str]:
    """Return the files of this package that a node needs, below `PACKAGE`: whole folders and their parent packages."""
    folders = (*NODE_FOLDERS, *RANK_FOLDERS)
    parents = {str(parent / "__init__.py") for folder in folders for parent in PurePath(folder).parents}
    found = [name for folder in folders for name in _python_files(PACKAGE, folder)]
    return [*sorted(parents), *NODE_MODULES, *found]


def _python_files(root: Path, part: str = "") -> list[str]:
    top = root / part
    found = [top] if top.is_file() else sorted(top.rglob("*.py"))
    return [str(path.relative_to(root)) for path in found]


def _with_byte_code(root: Path, names: Sequence[str]) -> list[str]:
    """Return the files and their byte code, or each agent and rank would compile them again at the same time.

    Python uses it only in this version, and for a source of the same size and time.
    """
    suffix = f".{sys.implementation.cache_tag}.pyc"
    compiled = [str(PurePath(name).parent / "__pycache__" / (PurePath(name).stem + suffix)) for name in names]
    return [*names, *(name for name in compiled if (root / name).is_file())]


def _copy(root: Path, names: Sequence[str], target: Path, report: Report = lambda num_bytes: None) -> None:
    """Copy files with their times and their owner's permissions, but none of other users."""
    for directory in sorted({(target / name).parent for name in names}):
        directory.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)
    for name in names:
        source, copy = root / name, target / name
        if source.is_symlink():
            copy.symlink_to(source.readlink())
            continue
        _copy_bytes(source, copy, report)
        status = source.stat()
        copy.chmod(status.st_mode & 0o700)
        os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))


def _copy_bytes(source: Path, copy: Path, report: Report) -> None:
    try:
        with open(source, "rb") as reader, open(copy, "wb") as writer:
            while block := reader.read(_BLOCK):
                writer.write(block)
                report(len(block))
    except OSError as error:
        if error.filename is None:  # read(2) and write(2) name none
            error.filename, error.filename2 = str(source), str(copy)
        raise


def _copy_project(root: Path, target: Path, progress: Progress) -> None:
    files = list_project(root)
    size = sum((root / name).lstat().st_size for name in files if not (root / name).is_symlink())
    if size > MAX_BYTES:
        raise UsageError(
            f"{root} has {len(files):,} files and {size // 2**20} MiB, too much to copy into each run", hint=_HINT
        )
    target.mkdir(mode=DIR_MODE, parents=True)
    _copy(root, files, target, Meter(progress, f"copying {len(files):,} files of {root}", size))


def list_project(root: Path) -> list[str]:
    """Return files and links below `root`: what git tracks or would track; without git, all but hidden files.

    Files with the name of a secret are left out. Raise UsageError for too many files, for a directory that cannot be
    read, and for links that leave the project: they would not point to the same file on a node.
    """
    names = sorted(name for name in islice(_list_names(root), MAX_FILES + 1) if not _looks_secret(name))
    if len(names) > MAX_FILES:
        raise UsageError(f"{root} has more than {MAX_FILES:,} files, too many to copy into each run", hint=_HINT)
    if outside := [name for name in names if (root / name).is_symlink() and not _stays_inside(root, name)]:
        raise UsageError(
            f"links that leave {root} or lead nowhere cannot be copied into a run: {', '.join(outside[:5])}",
            hint="replace them by copies, or let git ignore them",
        )
    return [name for name in names if (root / name).is_symlink() or (root / name).is_file()]


def _looks_secret(name: str) -> bool:
    return any(fnmatchcase(PurePath(name).name, pattern) for pattern in SECRETS)


def _list_names(root: Path) -> Iterator[str]:
    git = ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(git, capture_output=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return _walk(root)
    return iter({name for name in listing.decode("utf-8", errors="surrogateescape").split("\0") if name})


def _walk(root: Path) -> Iterator[str]:
    """Yield all files but hidden ones; a link to a directory is one name. Raise UsageError."""
    for folder, directories, files in os.walk(root, onerror=_refuse):
        directories[:] = [name for name in directories if not name.startswith(".")]
        links = [name for name in directories if Path(folder, name).is_symlink()]
        yield from (str(Path(folder, name).relative_to(root)) for name in (*files, *links) if not name.startswith("."))


def _refuse(error: OSError) -> NoReturn:
    raise UsageError(f"{error.filename} cannot be copied into a run: {error.strerror}", hint=_HINT) from None


def _stays_inside(root: Path, name: str) -> bool:
    link = root / name
    try:
        return not link.readlink().is_absolute() and link.resolve(strict=True).is_relative_to(root.resolve())
    except (OSError, RuntimeError):  # dangling, or circular
        return False
