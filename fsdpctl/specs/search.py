"""Where profiles and jobs are found: a path as it stands, a name along the search path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from fsdpctl.errors import UsageError
from fsdpctl.schema.problems import did_you_mean, show
from fsdpctl.schema.types import NAME
from fsdpctl.specs import bundled

SUFFIXES = (".yaml", ".yml")


def job_dirs() -> list[Path]:
    """The folders where a job's name is looked up, the first wins."""
    return [Path("jobs"), _config_home() / "jobs", bundled.jobs_dir()]


def profile_dirs() -> list[Path]:
    """The folders where a profile's name is looked up, the first wins."""
    return [Path("cluster_profiles"), _config_home() / "cluster_profiles", bundled.profiles_dir()]


def find_job(name_or_path: str) -> Path:
    """Return the file of a job. Raises UsageError saying where it was looked for."""
    return _find("job", name_or_path, job_dirs())


def find_profile(name_or_path: str) -> Path:
    """Return the file of a cluster profile. Raises UsageError saying where it was looked for."""
    return _find("profile", name_or_path, profile_dirs())


def list_files(folders: Iterable[Path]) -> dict[str, Path]:
    """Name -> file of everything that a name can mean; a name in an earlier folder hides a later one."""
    found: dict[str, Path] = {}
    for folder in folders:
        for path in map(folder.joinpath, _listdir(folder)):
            if path.suffix in SUFFIXES and NAME.fullmatch(path.stem):
                found.setdefault(path.stem, path)
    return dict(sorted(found.items()))


def _listdir(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:  # most users have only some of the folders
        return []


def _find(what: str, word: str, folders: list[Path]) -> Path:
    if "/" in word or word.endswith(SUFFIXES):
        return Path(word)
    if not NAME.fullmatch(word):
        raise UsageError(
            f"{show(word)} is no name of a {what}",
            hint="a name has letters, digits, '.', '_' and '-'; a path holds a '/' or ends in .yaml",
        )
    known = list_files(folders)
    if word in known:
        return known[word]
    raise UsageError(
        f"no {what} named {word}{did_you_mean(word, known)}",
        hint=f"searched {', '.join(map(str, folders))}; a path to a file works too; known: {', '.join(known)}",
    )


def _config_home() -> Path:
    # Not Path.home(): it raises for a user without a home, as containers have them.
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "fsdpctl")  # noqa: PTH111
