"""Start the node agent.

python -m fsdpctl.node.agent --run-dir DIR --attempt N --node-rank R
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from fsdpctl.contract import StopReason
from fsdpctl.contract.codec import read_json, write_text
from fsdpctl.contract.control_files import preallocate, write_request
from fsdpctl.contract.paths import DIR_MODE, AttemptPaths, RunPaths
from fsdpctl.contract.plan import Allocation, LaunchPlan
from fsdpctl.node.agent.agent import Agent
from fsdpctl.node.agent.claim import claim_node
from fsdpctl.node.os import signals
from fsdpctl.node.os.log import log

RESERVE_BYTES = 16_384
"""Disk space kept for the exit record: on a full disk, a run that has ended must not look lost."""


def _placed_plan(run: RunPaths, attempt: AttemptPaths) -> LaunchPlan:
    """The plan; with the names and addresses of the nodes where a scheduler chose them for this attempt."""
    plan = read_json(LaunchPlan, run.plan)
    return plan.place(read_json(Allocation, attempt.allocation).nodes) if attempt.allocation.exists() else plan


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="fsdpctl.node.agent")
    parser.add_argument("--run-dir", type=Path, required=True)
    parser.add_argument("--attempt", type=int, required=True)
    parser.add_argument("--node-rank", type=int, required=True)
    words = parser.parse_args(argv)
    os.umask(0o077)
    run = RunPaths(words.run_dir)
    attempt = run.attempt(words.attempt)
    paths = attempt.node(words.node_rank)
    paths.root.mkdir(mode=DIR_MODE, parents=True, exist_ok=True)

    def on_signal(number: int, _frame: FrameType | None) -> None:
        write_request(attempt.stop, StopReason.PREEMPT, f"node {words.node_rank} got {signal.Signals(number).name}")

    for number in signals.STOP_SIGNALS:
        signal.signal(number, on_signal)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)

    write_text(paths.reserve, " " * RESERVE_BYTES)
    preallocate(attempt.stop, attempt.abort)
    if not claim_node(paths):
        log("this node has another agent in this attempt: nothing to do")
        return 0
    agent = Agent(_placed_plan(run, attempt), attempt, words.node_rank)
    end = agent.run()
    log(f"end: {end.code} {end.reason}")
    return end.code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
