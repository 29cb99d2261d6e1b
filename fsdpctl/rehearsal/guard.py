"""End a rehearsal whose command was killed: a process of its own, which notices that by its standard input.

python -m fsdpctl.rehearsal.guard RUN_DIR
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.os.own_session import start_in_own_session

_RELEASED = b"."


@contextmanager
def guarding(run: RunPaths) -> Iterator[None]:
    """Have the run ended and removed if this process is killed, or leaves by an error with the run still there."""
    guard = start_in_own_session("fsdpctl.rehearsal.guard", str(run.root))
    assert guard.stdin is not None
    try:
        yield
        _release(guard)
    except BaseException:
        if not run.root.exists():
            _release(guard)
        raise
    finally:
        guard.stdin.close()


def _release(guard: subprocess.Popen[bytes]) -> None:
    assert guard.stdin is not None
    guard.stdin.write(_RELEASED)
    guard.stdin.close()
    guard.wait()


def main(run: RunPaths) -> None:
    """Wait for the end of the command; unless it has released this process, end the run and remove it."""
    if sys.stdin.buffer.read() == _RELEASED or not run.root.exists():
        return
    from fsdpctl.rehearsal.end import end_and_remove  # slow to import, and seldom needed

    end_and_remove(run)


if __name__ == "__main__":
    main(RunPaths(Path(sys.argv[1])))
