"""The folders of the files that come with fsdpctl: inside the package when installed, beside it in a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def jobs_dir() -> Path:
    """Return the folder of the jobs that come with fsdpctl."""
    return _root() / "jobs"


def profiles_dir() -> Path:
    """Return the folder of the cluster profiles that come with fsdpctl."""
    return _root() / "cluster_profiles"


def train_dir() -> Path:
    """Return the folder of the bundled trainer package, which is named `train`."""
    return _root() / "train"


def _root() -> Path:
    installed = _PACKAGE / "bundled"  # filled by the wheel's force-include, see pyproject.toml
    return installed if installed.is_dir() else _PACKAGE.parent
