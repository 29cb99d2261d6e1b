"""The supervisor of a local run: attempts one after the other, until one ends well or none is left to try.

    python -m fsdpctl.supervise RUN_DIR

It has no state of its own: what it decides is written beside the attempt that it judged.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launchers.agents import start_agents
from fsdpctl.node import processes
from fsdpctl.runs.decide import History, decide_next, judge
from fsdpctl.runs.evidence import attempt_end, newest_step, read_plan
from fsdpctl.runs.store import claim_attempt, read_record

POLL_S = 0.2
PAUSE_S = 1.0
"""Between a failure and the next attempt."""


def supervise(run: RunPaths) -> None:
    """Run attempts, the newest one first, until `decide_next` says stop."""
    write_json(run.supervisor, processes.identify(os.getpid()))
    plan = read_plan(run)
    first_attempt = read_record(run).submissions[-1].first_attempt
    attempt = run.attempts()[-1]
    best_step, idle = newest_step(run), 0
    while True:
        _run_attempt(plan, run, attempt)
        reached = newest_step(run)
        idle = 0 if reached > best_step else idle + 1
        best_step = max(best_step, reached)
        history = History(attempt.number - first_attempt, plan.restarts, idle)
        verdict = decide_next(judge(attempt_end(attempt, len(plan.nodes))), history)
        print(f"attempt {attempt.number}: {verdict.state}: {verdict.reason}; restart: {verdict.restart}", flush=True)
        write_json(attempt.verdict, verdict)
        if not verdict.restart:
            return
        time.sleep(PAUSE_S)
        attempt = claim_attempt(run)


def _run_attempt(plan: LaunchPlan, run: RunPaths, attempt: AttemptPaths) -> None:
    agents = start_agents(plan, run, attempt)
    while any(agent.poll() is None for agent in agents):
        time.sleep(POLL_S)
    processes.sweep(processes.Tag(plan.run_id), spare=[os.getpid()])


if __name__ == "__main__":
    os.umask(0o077)
    supervise(RunPaths(Path(sys.argv[1])))
