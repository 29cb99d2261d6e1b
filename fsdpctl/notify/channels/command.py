"""Run a command with a notice as JSON on its standard input."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress

from fsdpctl.contract.notify import Notice
from fsdpctl.notify.channels.error import DeliveryError
from fsdpctl.notify.environ import outer_environment
from fsdpctl.notify.text import as_json


def run_command(argv: Sequence[str], notice: Notice, timeout_s: float) -> None:
    """Run it to its end; what it prints is not kept, for it may print secrets of its own. Raise DeliveryError."""
    try:
        process = subprocess.Popen(
            argv,
            env=outer_environment(os.environ, notice.run_dir),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            preexec_fn=_reset_signals,
        )
    except OSError as error:
        raise DeliveryError(f"{argv[0]} cannot be started: {error.strerror}", is_final=True) from None
    try:
        process.communicate(json.dumps(as_json(notice)).encode() + b"\n", timeout=timeout_s)
    except subprocess.TimeoutExpired:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # what it has started, too
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        raise DeliveryError(f"it did not end within {timeout_s:.0f} s") from None
    if process.returncode:
        raise DeliveryError(f"it ended with exit code {process.returncode}")


def _reset_signals() -> None:
    """Give a command the handlers that it expects: the sender ignores requests to stop."""
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_DFL)
