"""The command `fsdpctl`, also as `python -m fsdpctl`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the CLI; Ctrl-C ends it without a traceback from the first moment on."""
    try:
        from fsdpctl.cli.app import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
