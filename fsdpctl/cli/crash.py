"""Write the traceback of a bug to a file instead of the user's terminal."""

from __future__ import annotations

import os
import platform
import sys
import tempfile
import traceback

from fsdpctl import __version__


def write_report() -> str:
    """Write the exception being handled to a private file and return its path."""
    descriptor, path = tempfile.mkstemp(prefix="fsdpctl-crash-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as file:
        file.write(f"fsdpctl {__version__}, Python {platform.python_version()}, {platform.platform()}\n")
        file.write(f"command: {sys.argv[1:2]}\n\n")
        traceback.print_exc(file=file)
    return path
