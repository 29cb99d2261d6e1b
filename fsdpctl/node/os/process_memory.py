"""Make /proc show another command and environment for this process, as setproctitle does.

The kernel keeps the arguments and the environment of the last exec; a forked child that becomes another program
overwrites them in its own memory, so that `ps` and the search for a run's processes see what it is.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence

from fsdpctl.node.os.processes import PROC

_ARGUMENTS, _ENVIRONMENT = 47, 49
"""Fields of /proc/self/stat, from 0: where each begins; the next one is its end (proc_pid_stat(5))."""


def free_environment() -> None:
    """Move all variables to new memory, so that what `getenv` returned to a library is never overwritten."""
    replace = dict(os.environ)
    os.environ.clear()
    os.environ.update(replace)


def replace_environment(env: Mapping[str, str]) -> None:
    """Set the environment of this process, and show it; what has no room is not shown."""
    os.environ.clear()
    os.environ.update(env)
    start, end = _region(_ENVIRONMENT)
    room, shown = end - start, b""
    # The run's own variables first: by them its processes are found.
    for name in sorted(env, key=lambda name: (not name.startswith("FSDPCTL_"), name != "RANK")):
        variable = os.fsencode(f"{name}={env[name]}\0")
        if len(shown) + len(variable) <= room:
            shown += variable
    ctypes.memmove(start, shown.ljust(room, b"\0"), room)


def show_command(argv: Sequence[str]) -> None:
    """Show another command, cut to the room of the one that was executed."""
    start, end = _region(_ARGUMENTS)
    room = end - start
    shown = b"".join(os.fsencode(word) + b"\0" for word in argv)[: room - 1]
    ctypes.memmove(start, shown.ljust(room, b"\0"), room)


def _region(field: int) -> tuple[int, int]:
    fields = (PROC / "self/stat").read_text().rpartition(")")[2].split()
    return int(fields[field - 2]), int(fields[field - 1])
