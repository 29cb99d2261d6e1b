"""Measure the time from SIGKILL of a rank to the first new step, warm and cold, on two local nodes.

    python -m bench.restarts [--kills 9] [--round 3] [--steps-before 12] [--job llm-tiny] [--ranks 1] [--set KEY=VALUE]

Warm and cold alternate, so that other work on the machine affects both. A row of JSON is printed for each run. On GPUs
take `--job llm300m`, and so many `--steps-before` that a checkpoint is complete before the first kill.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import statistics
import sys
import time

from bench.cost import print_table
from fsdpctl import Client, Run
from fsdpctl.node.agent.rank_watch import rank_processes
from fsdpctl.node.os.processes import Tag

WAIT_S = 240.0
HEADER = ("start", "kills", "median s", "worst s", "submit to first step, median s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=9)
    parser.add_argument("--round", type=int, default=3, help="kills of one run, before the other kind's turn")
    parser.add_argument("--steps-before", type=int, default=12, help="steps of an attempt before its kill")
    parser.add_argument("--job", default="llm-tiny")
    parser.add_argument("--ranks", type=int, default=1, help="ranks per node")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="overrides")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that a time limit leaves no run behind
    kills: dict[str, list[float]] = {"warm": [], "cold": []}
    starts: dict[str, list[float]] = {"warm": [], "cold": []}
    while len(kills["cold"]) < args.kills:
        for kind in kills:
            overrides = [f"warm={str(kind == 'warm').lower()}", f"procs_per_node={args.ranks}", *args.overrides]
            began = time.monotonic()
            run = Client().submit(args.job, nodes=2, overrides=[*overrides, "restarts=100", "trainer.steps=100000"])
            try:
                wait_steps(run, 1, 1)
                start = time.monotonic() - began
                found = [kill_and_wait(run, attempt, args.steps_before) for attempt in range(1, args.round + 1)]
            finally:
                run.cancel()
            starts[kind].append(start)
            kills[kind] += found
            print(json.dumps({"run": run.run_id, "start": kind, "first_step_s": start, "kills_s": found}), flush=True)
    rows = [
        [
            kind,
            str(len(times)),
            *map("{:.2f}".format, (statistics.median(times), max(times), statistics.median(starts[kind]))),
        ]
        for kind, times in kills.items()
    ]
    print_table(f"{args.job}, two nodes of {args.ranks}", HEADER, rows)


def kill_and_wait(run: Run, attempt: int, steps_before: int) -> float:
    """Kill the first rank of the second node amid an attempt; return the seconds to a step of the next one."""
    wait_steps(run, attempt, steps_before)
    pid = min(rank_processes(Tag(run.run_id, 1)).items())[1]
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    wait_steps(run, attempt + 1, 1)
    return time.monotonic() - began


def wait_steps(run: Run, attempt: int, count: int) -> None:
    """Wait until an attempt has made so many steps."""
    deadline = time.monotonic() + WAIT_S
    while [line["attempt"] for line in run.metrics()].count(attempt) < count:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{run.run_id}: attempt {attempt} did not make {count} steps in {WAIT_S:.0f} s")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
