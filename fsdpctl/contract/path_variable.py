"""The environment variable that has led a rank to a path which it cannot use: cache directories, mostly."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

_DENIED = (errno.EACCES, errno.EPERM, errno.EROFS)
_PATH_ERRORS = (errno.ENOENT, errno.ENOTDIR, *_DENIED)
_OF_SHELL_OR_LAUNCHER = ("PWD", "OLDPWD", "FSDPCTL_")


def find_path_variable(error: OSError, env: Mapping[str, str]) -> str:
    """Return the variable whose value is the path of an error, or a directory above it; empty if there is none.

    One whose directory can be used is none: then the path is wrong below it. Of several, the longest value counts.
    """
    if error.errno not in _PATH_ERRORS or not isinstance(error.filename, str):
        return ""
    path = Path(error.filename)
    found = [
        (len(value), name)
        for name, value in env.items()
        if value.startswith("/") and value.strip("/") and not name.startswith(_OF_SHELL_OR_LAUNCHER)
        if path.is_relative_to(value) and not _is_usable(Path(value), path, error.errno)
    ]
    return max(found)[1] if found else ""


def _is_usable(directory: Path, path: Path, code: int) -> bool:
    """Return whether a directory is there, and did not itself deny what was to be done at a path in it."""
    below = path.relative_to(directory).parts
    try:
        if not directory.is_dir():
            return False
        if code not in _DENIED:
            return True
        return bool(below) and ((directory / below[0]).exists() or os.access(directory, os.W_OK))
    except OSError:  # a directory above may not be searched
        return False
