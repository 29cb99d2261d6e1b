"""The command `fsdpctl`, also as `python -m fsdpctl`."""

from __future__ import annotations

import gc
import sys

OBJECTS_BETWEEN_COLLECTIONS = 50_000
"""Most commands import, answer and end: what they make stays until then, and looking for garbage in it takes time."""


def main() -> None:
    """Run the CLI; Ctrl-C ends it without a traceback from the first moment on."""
    gc.set_threshold(OBJECTS_BETWEEN_COLLECTIONS)
    try:
        from fsdpctl.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
