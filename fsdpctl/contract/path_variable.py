"""The environment variable that has led a rank to a path which it cannot use: cache directories, mostly."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from pathlib import Path

_PATH_ERRORS = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.EPERM, errno.EROFS)
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
        if value.startswith("/") and path.is_relative_to(value) and not name.startswith(_OF_SHELL_OR_LAUNCHER)
        if not _is_usable(Path(value), error.errno)
    ]
    return max(found)[1] if found else ""


def _is_usable(directory: Path, code: int) -> bool:
    is_denied = code in (errno.EACCES, errno.EPERM, errno.EROFS)
    return directory.is_dir() and not (is_denied and not os.access(directory, os.W_OK))
