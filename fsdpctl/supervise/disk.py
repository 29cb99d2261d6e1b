"""Keep the supervisor alive while the disk is full or absent: it starts again from the files of the run."""

from __future__ import annotations

import shutil
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from fsdpctl.contract import StopReason
from fsdpctl.contract.control_files import preallocate, read_control_file, write_request
from fsdpctl.contract.paths import AttemptPaths
from fsdpctl.runs.store import claim_attempt
from fsdpctl.supervise.agents import Agents

T = TypeVar("T")

FIRST_PAUSE_S, PAUSE_S = 1.0, 10.0
"""Before the second try, and before later ones: each pause is twice the one before it."""
QUIET_S = 600.0
"""After this time without an error, the tries are counted from zero."""


def retry_disk_errors(work: Callable[[], T], tries: int, is_gone: Callable[[], bool] = lambda: False) -> T | None:
    """Call `work` until it raises no OSError, and return its result.

    Return None after `tries` errors in a row, or after one where `is_gone` returns true: nothing is left to do.
    """
    failed, last = 0, time.monotonic()
    while True:
        try:
            return work()
        except OSError:
            with suppress(OSError):  # the log may be on the same disk
                traceback.print_exc()
        failed = failed + 1 if time.monotonic() - last < QUIET_S else 1
        if failed >= tries or is_gone():
            return None
        last = time.monotonic()
        time.sleep(min(FIRST_PAUSE_S * 2 ** (failed - 1), PAUSE_S))


def begin_attempt(agents: Agents, last: AttemptPaths | None = None) -> AttemptPaths:
    """Make the next attempt's directory, with the files that its agents need. Raise OSError, and leave nothing then.

    What a user requested of `last`, the one before it in this submission, while it was made is requested of it, too.
    """
    attempt = claim_attempt(agents.run)
    try:
        agents.describe_nodes(attempt)
        preallocate(attempt.stop, attempt.abort)
    except OSError:
        shutil.rmtree(attempt.root, ignore_errors=True)  # it would look like a lost attempt
        raise
    request = read_control_file(last.stop) if last is not None else None
    if request is not None and request.is_users_stop:
        write_request(attempt.stop, StopReason.USER, request.reason)
    return attempt
