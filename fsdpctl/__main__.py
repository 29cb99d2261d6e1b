"""The command `fsdpctl`, also as `python -m fsdpctl`."""

from __future__ import annotations

import gc
import os
import sys

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Most commands are short: their objects live to the end, and looking for garbage among them takes time."""


def main() -> None:
    """Run the CLI; Ctrl-C ends it without a traceback, also during imports."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    open_closed_streams()
    try:
        from fsdpctl.cli.output import open_outlet

        sys.stdout, sys.stderr = open_outlet(sys.stdout), open_outlet(sys.stderr)
        from fsdpctl.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


def open_closed_streams() -> None:
    """Open closed standard streams: after `>&-` the next opened file would be the standard output of every child."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = sys.stdout or os.fdopen(1, "w", closefd=False)
    sys.stderr = sys.stderr or os.fdopen(2, "w", closefd=False)


if __name__ == "__main__":
    main()
