"""A submit that dies before a chosen one of its steps, as kill -9 or a power cut would have it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

SUBMIT = """
import os, signal, sys
sys.dont_write_bytecode = True  # or the first of two submits has more steps
steps, at = 0, int(sys.argv[1])
def watch(event, arguments):
    global steps
    if event in ("os.rename", "os.mkdir", "os.link", "subprocess.Popen"):
        steps += 1
        if steps == at:
            os.kill(os.getpid(), signal.SIGKILL)
from fsdpctl.cli import app
sys.addaudithook(watch)
sys.argv = ["fsdpctl", "submit", *sys.argv[2:]]
try:
    app.main()
except SystemExit:
    print(steps)
"""


def killed_submit(
    *words: str, cwd: Path, at: int, command: Callable[..., list[str]] = lambda *argv, cwd: list(argv)
) -> int:
    """Submit, and die before the step with this number that changes something; 0: live, and count the steps.

    `command` makes the words that run it on another host.
    """
    argv = command(sys.executable, "-P", "-c", SUBMIT, str(at), *words, cwd=cwd)
    done = subprocess.run(argv, cwd=cwd, capture_output=True, text=True, timeout=120)
    died = -signal.SIGKILL, 128 + signal.SIGKILL
    assert done.returncode in (died if at else (0,)), done.stderr
    return int(done.stdout.split()[-1]) if not at else 0
