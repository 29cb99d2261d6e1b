"""`fsdpctl` with small pieces, and with a failure at a chosen point.

    python -m tests.unit.data.small_pieces LIMIT ARGS...

LIMIT `dies:N` kills the process before its N-th change of a file, `counts` prints the number of changes at the end of
stderr, `file:N` limits each file to N bytes.
"""

from __future__ import annotations

import atexit
import os
import resource
import signal
import sys

from fsdpctl.cli.app import main
from fsdpctl.data import inputs

PIECE_BYTES = 40_000
_CHANGES = ("os.rename", "os.remove", "os.mkdir", "os.rmdir")


def count_changes(dies_at: int | None) -> None:
    """Count the changes below a `.partial` directory; die instead of making number `dies_at`."""
    changes = 0

    def count(event: str, args: tuple[object, ...]) -> None:
        nonlocal changes
        writes = event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        if (writes or event in _CHANGES) and ".partial" in str(args[0]):
            changes += 1
            if changes == dies_at:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)
    atexit.register(lambda: print(changes, file=sys.stderr))


if __name__ == "__main__":
    inputs.PIECE_BYTES = PIECE_BYTES
    kind, _, value = sys.argv.pop(1).partition(":")
    if kind in ("dies", "counts"):
        count_changes(int(value) if value else None)
    elif kind == "file":
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(value), int(value)))
    main()
