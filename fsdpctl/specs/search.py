"""Find the file of a profile or job: by path, or by name along the search path."""

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
    """Return the folders in which a job's name is looked up; the first match wins."""
    return [Path("jobs"), _config_home() / "jobs", bundled.jobs_dir()]


def profile_dirs() -> list[Path]:
    """Return the folders in which a profile's name is looked up; the first match wins."""
    return [Path("cluster_profiles"), _config_home() / "cluster_profiles", bundled.profiles_dir()]


def find_job(name_or_path: str) -> Path:
    """Return the file of a job. Raise UsageError with the folders searched if there is none."""
    return _find("job", name_or_path, job_dirs())


def find_profile(name_or_path: str) -> Path:
    """Return the file of a cluster profile. Raise UsageError with the folders searched if there is none."""
    return _find("profile", name_or_path, profile_dirs())


def list_files(folders: Iterable[Path]) -> dict[str, Path]:
    """Return name -> file of all specs in the folders; an earlier folder hides names of later ones."""
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


def _find(what: str, name_or_path: str, folders: list[Path]) -> Path:
    if "/" in name_or_path or name_or_path.endswith(SUFFIXES):
        return Path(name_or_path)
    if not NAME.fullmatch(name_or_path):
        raise UsageError(
            f"{show(name_or_path)} is not a valid name of a {what}",
            hint="a name has letters, digits, '.', '_' and '-'; a path contains a '/' or ends in .yaml",
        )
    known = list_files(folders)
    if name_or_path in known:
        return known[name_or_path]
    raise UsageError(
        f"no {what} named {name_or_path}{did_you_mean(name_or_path, known)}",
        hint=f"searched {', '.join(map(str, folders))}; a path to a file works too; known: {', '.join(known)}",
    )


def _config_home() -> Path:
    # Not Path.home(), which raises for a user without a home directory, as in some containers.
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "fsdpctl")  # noqa: PTH111
