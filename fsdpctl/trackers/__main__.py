"""Send the metrics of an attempt to one tracker. The agent of node 0 starts it, and writes how it ended to its input.

python -m fsdpctl.trackers NAME --run-dir DIR --attempt N
"""

from __future__ import annotations

import argparse
import json
import os
import select
import sys
from functools import partial
from pathlib import Path
from typing import Any, cast, get_args

from fsdpctl.contract.codec import read_json
from fsdpctl.contract.files import read_bytes
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.node.os import signals
from fsdpctl.trackers.feed import Feed
from fsdpctl.trackers.send import Sender
from fsdpctl.trackers.table import TRACKERS
from fsdpctl.trackers.tracker import EndState, TrackedRun

NICE = 10
"""Ranks go first, on a node whose processors are all busy."""


def main(argv: list[str]) -> None:
    parser = argparse.ArgumentParser(prog="fsdpctl.trackers")
    parser.add_argument("name", choices=TRACKERS)
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt", type=int, required=True)
    words = parser.parse_args(argv)
    os.umask(0o077)
    os.nice(NICE)
    signals.ignore()
    run = RunPaths(words.run_dir)
    connect = partial(TRACKERS[words.name], describe_run(run))
    Sender(connect, Feed(run.metrics, run.evaluations, words.attempt), run.tracker_state(words.name)).run(wait)


def describe_run(run: RunPaths) -> TrackedRun:
    """Return what a tracker gets to know of a run, from its files."""
    plan = read_json(LaunchPlan, run.plan)
    config: dict[str, Any] = {"nodes": len(plan.nodes), "procs_per_node": plan.procs_per_node}
    if plan.entry.is_bundled_trainer:
        config |= json.loads(read_bytes(run.trainer_config))
    else:
        config |= {"entrypoint": plan.entry.target, "args": list(plan.entry.args)}
    return TrackedRun(plan.run_id, plan.job_name, run.root, run.tensorboard, config)


def wait(seconds: float) -> EndState | None:
    """Wait at most that long for how the attempt ended, on standard input.

    An end of file without that means that the agent was killed.
    """
    if not select.select([sys.stdin.fileno()], [], [], seconds)[0]:
        return None
    word = os.read(sys.stdin.fileno(), 100).decode().strip()
    return cast(EndState, word) if word in get_args(EndState) else "failed"


if __name__ == "__main__":
    main(sys.argv[1:])
