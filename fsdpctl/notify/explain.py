"""Why a run ended, from the fsdpctl that is installed: its rules are not part of the copy in a run."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace

from fsdpctl.contract import State
from fsdpctl.contract.notify import Notice
from fsdpctl.notify.environ import outer_environment

LIMIT_S = 30.0


def with_explanation(notice: Notice, python: str) -> Notice:
    """Return the notice with what `fsdpctl explain` finds after a failure; unchanged where it finds nothing, or where
    this host has no fsdpctl under the `python` of the submitting one."""
    if notice.restart or notice.state not in (State.FAILED, State.LOST) or not os.access(python, os.X_OK):
        return notice
    try:
        done = subprocess.run(
            [python, "-m", "fsdpctl.verbs.explain_verdict", notice.run_dir],
            env={**outer_environment(os.environ, notice.run_dir), "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=LIMIT_S,
            check=True,
        )
        found = json.loads(done.stdout)
        if not found or found["category"] == "unknown":
            return notice
        why = f"{found['category']} ({found['confidence']}): {found['summary']}"
        return replace(notice, why=why, change=str(next(iter(found["changes"]), "")))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError):
        return notice
