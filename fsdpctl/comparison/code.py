"""The code that the ranks of two runs have run: their copies are compared."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from filecmp import cmp
from pathlib import Path

from fsdpctl.comparison.result import ChangedFile
from fsdpctl.contract.codec import CodecError, find_json
from fsdpctl.contract.formats.manifest import InvalidCheckpointError, committed, read_manifest
from fsdpctl.contract.paths import RunPaths
from fsdpctl.errors import FsdpctlError
from fsdpctl.runs.copied import read_copied
from fsdpctl.runs.git_facts import GitFacts

_TIMEOUT_S = 60
_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


def compare_code(a: RunPaths, b: RunPaths) -> list[ChangedFile]:
    """Return the files that differ, without those that ranks have written."""
    of_a, of_b = list_code(a), list_code(b)
    found = []
    for name in sorted({*of_a, *of_b}):
        if name not in of_a:
            found.append(ChangedFile(name, "added"))
        elif name not in of_b:
            found.append(ChangedFile(name, "removed"))
        elif not _is_same(a.code / name, b.code / name):
            found.append(ChangedFile(name, "changed"))
    return found


def list_code(run: RunPaths) -> set[str]:
    """Return the files of a run's code, below its directory `code`."""
    found = {
        str(path.relative_to(run.code))
        for package in run.packages()
        for path in package.rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with suppress(OSError, CodecError):
        copied = read_copied(run)
        if copied is not None:
            found |= {str(Path(name).relative_to(run.code.name)) for name in copied.newest}
    return found


def diff_code(a: RunPaths, b: RunPaths, files: list[ChangedFile]) -> str:
    """Return a patch of these files from one run to the other. Raise FsdpctlError without git."""
    return "".join(_diff_file(a.code / file.path, b.code / file.path, file) for file in files)


def _diff_file(a: Path, b: Path, file: ChangedFile) -> str:
    old = "/dev/null" if file.change == "added" else str(a)
    new = "/dev/null" if file.change == "removed" else str(b)
    command = ["git", "--no-pager", "diff", "--no-index", "--no-color", "--no-ext-diff", "--", old, new]
    try:
        done = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise FsdpctlError(f"git cannot compare the code: {error}", hint="install git, or leave --diff out") from None
    header, first, rest = done.stdout.decode(errors="replace").partition("\n@@")
    for side in "ab":  # of an added or a removed file git names one path on both sides
        header = header.replace(f"{side}{a}", f"{side}/{file.path}").replace(f"{side}{b}", f"{side}/{file.path}")
    return header + first + rest


def read_versions(run: RunPaths) -> dict[str, str | None]:
    """Return commit of the project, and versions of fsdpctl and torch, as far as the run has recorded them."""
    facts = None
    with suppress(OSError, CodecError):
        facts = find_json(GitFacts, run.git)
    commit = f"{facts.commit[:12]}{' with edits' if facts.changed or facts.untracked else ''}" if facts else None
    return {"commit": commit, "fsdpctl": _fsdpctl_version(run), "torch": _torch_version(run)}


def _torch_version(run: RunPaths) -> str | None:
    """Return the version that the newest checkpoint was written by; own scripts record none."""
    for name in reversed(committed(run.checkpoints)):
        with suppress(InvalidCheckpointError):
            return read_manifest(run.checkpoints / name).torch_version
    return None


def _fsdpctl_version(run: RunPaths) -> str | None:
    try:
        found = _VERSION.search((run.packages()[0] / "__init__.py").read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return None
    return found[1] if found else None


def _is_same(a: Path, b: Path) -> bool:
    try:
        return cmp(a, b, shallow=False)
    except OSError:
        return False
