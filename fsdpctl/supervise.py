"""The supervisor of a local run: attempts one after the other, until one ends well or none is left to try.

    python -m fsdpctl.supervise RUN_DIR

It has no state of its own: what it decides is written beside the attempt that it judged.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from fsdpctl.contract import Env
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import DIR_MODE, AttemptPaths, RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.launchers.local import start_agents
from fsdpctl.node import processes
from fsdpctl.runs.decide import History, decide_next, judge
from fsdpctl.runs.status import attempt_end, last_metrics, read_plan
from fsdpctl.runs.store import read_record

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


def newest_step(run: RunPaths) -> int:
    """The last step that any attempt has reached; 0 before the first."""
    metrics = last_metrics(run)
    return int(metrics.get("step", 0)) if metrics else 0


def claim_attempt(run: RunPaths) -> AttemptPaths:
    """Make the next attempt's directory. Its number fences every older attempt."""
    attempts = run.attempts()
    attempt = run.attempt(attempts[-1].number + 1 if attempts else 1)
    attempt.root.mkdir(mode=DIR_MODE, parents=True)
    return attempt


def _run_attempt(plan: LaunchPlan, run: RunPaths, attempt: AttemptPaths) -> None:
    agents = start_agents(plan, run, attempt)
    while any(agent.poll() is None for agent in agents):
        time.sleep(POLL_S)
    processes.sweep(processes.Tag(plan.run_id), spare=[os.getpid()])


def start_supervisor(run: RunPaths) -> subprocess.Popen[bytes]:
    """Start the supervisor detached from this terminal and wait until it stands."""
    descriptor = os.open(run.supervisor_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    run.supervisor.unlink(missing_ok=True)
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "fsdpctl.supervise", str(run.root)],
            env={**os.environ, Env.RUN_ID: run.root.name, "PYTHONSAFEPATH": "1"},
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
        )
    finally:
        os.close(descriptor)
    while not run.supervisor.exists() and process.poll() is None:
        time.sleep(0.01)
    return process


if __name__ == "__main__":
    os.umask(0o077)
    supervise(RunPaths(Path(sys.argv[1])))
