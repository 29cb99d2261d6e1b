"""Send a notice of a run. The supervisor starts it, and does not wait.

python -m fsdpctl.notify RUN_DIR < notice.json
"""

from __future__ import annotations

import json
import os
import signal
import sys

from fsdpctl.contract.codec import decode, read_json
from fsdpctl.contract.notify import Notice
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.notify.explain import with_explanation
from fsdpctl.notify.record import deliver_and_record

NICE = 10
"""Ranks go first."""


def main(run: RunPaths, text: str) -> None:
    os.umask(0o077)
    os.nice(NICE)
    # A scheduler that requeues the job sends TERM to all of its processes, and KILL half a minute later.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    plan, notice = read_json(LaunchPlan, run.plan), decode(Notice, json.loads(text))
    targets = [target for target in plan.notify if set(target.on) & set(notice.occasions)]
    deliver_and_record(run, targets, with_explanation(notice, plan.installed_python))


if __name__ == "__main__":
    main(RunPaths.of(sys.argv[1]), sys.stdin.read())
    os._exit(0)  # threads of servers that do not answer end here
