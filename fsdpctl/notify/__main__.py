"""Send a notice of a run. The supervisor starts it, and does not wait.

    python -m fsdpctl.notify RUN_DIR PENDING < notice.json

PENDING is the file of the notice, for the case that this process is killed.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import suppress
from pathlib import Path

from fsdpctl.contract.codec import decode, read_json
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.notify import Notice
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.notify.explain import with_explanation
from fsdpctl.notify.record import deliver_and_record

NICE = 10
"""Ranks go first."""


def main(run: RunPaths, pending: Path, text: str) -> None:
    os.umask(0o077)
    os.nice(NICE)
    with suppress(OSError):  # a full disk
        if take_lock(pending) is None:
            return  # another process sends it
    plan, notice = read_json(LaunchPlan, run.plan), decode(Notice, json.loads(text))
    targets = [target for target in plan.notify if set(target.on) & set(notice.occasions)]
    deliver_and_record(run, targets, with_explanation(notice, plan.installed_python))
    pending.unlink(missing_ok=True)


if __name__ == "__main__":
    main(RunPaths.of(sys.argv[1]), Path(sys.argv[2]), sys.stdin.read())
    os._exit(0)  # threads of servers that do not answer end here
