"""The name of the user who runs this process."""

from __future__ import annotations

import getpass
import os


def user_name() -> str:
    """Return the name of this user, or the number of one without an entry, as in some containers."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # OSError since Python 3.13
        return str(os.getuid())
