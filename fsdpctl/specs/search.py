"""Find the file of a profile or job: by path, or by name along the search path."""

from __future__ import annotations

import os
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.codec import write_text
from fsdpctl.contract.files import read_bytes
from fsdpctl.errors import UsageError
from fsdpctl.schema.problems import did_you_mean, show
from fsdpctl.schema.types import NAME
from fsdpctl.specs import bundled

SUFFIXES = (".yaml", ".yml")
BUILTIN_PROFILE = "local"
"""The profile that is used where none is chosen."""


def job_dirs() -> list[Path]:
    """Return the folders in which a job's name is looked up; the first match wins."""
    return [Path("jobs"), _config_home() / "jobs", bundled.jobs_dir()]


def profile_dirs() -> list[Path]:
    """Return the folders in which a profile's name is looked up; the first match wins."""
    return [Path("cluster_profiles"), _config_home() / "cluster_profiles", bundled.profiles_dir()]


def find_job(name_or_path: str) -> Path:
    """Return the file of a job. Raise UsageError with the folders searched if there is none."""
    return _find("job", name_or_path, job_dirs())


class ProfileSource(StrEnum):
    """What chose the profile."""

    OPTION = "--profile"
    JOB = "the job"
    VARIABLE = Env.PROFILE
    STORED = "fsdpctl profiles default"
    BUILTIN = "the built-in default"


def choose_profile(option: str | None, job: str | None = None) -> tuple[str, ProfileSource]:
    """Return the name or path of the profile to use, and what chose it: the first that is given."""
    candidates = [
        (option, ProfileSource.OPTION),
        (job, ProfileSource.JOB),
        (os.environ.get(Env.PROFILE), ProfileSource.VARIABLE),
        (read_default_profile(), ProfileSource.STORED),
    ]
    return next(((name, source) for name, source in candidates if name), (BUILTIN_PROFILE, ProfileSource.BUILTIN))


def read_default_profile() -> str | None:
    """Return the profile that `fsdpctl profiles default` has stored."""
    try:
        return read_bytes(_default_file()).decode().strip() or None
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{_default_file()}: cannot read the default profile: {error}") from None


def store_default_profile(name: str | None) -> None:
    """Store the profile to use where none is given; None: forget it. A path is stored for use from anywhere."""
    if name is None:
        _default_file().unlink(missing_ok=True)
        return
    path = find_profile(name)
    _default_file().parent.mkdir(parents=True, exist_ok=True)
    write_text(_default_file(), f"{path.absolute() if _is_path(name) else name}\n")


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
    if _is_path(name_or_path):
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


def _is_path(name_or_path: str) -> bool:
    return "/" in name_or_path or name_or_path.endswith(SUFFIXES)


def _default_file() -> Path:
    return _config_home() / "default_profile"


def settings_file() -> Path:
    """Return the file of the user's settings, which may not exist."""
    return _config_home() / "settings.yaml"


def _config_home() -> Path:
    # Not Path.home(), which raises for a user without a home directory, as in some containers.
    return Path(os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config"), "fsdpctl")  # noqa: PTH111
