"""The supervisor of a run without a scheduler, as a process of its own on the submitting host.

python -m fsdpctl.backends.detached RUN_DIR
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from fsdpctl.backends.detached.wait_for_run import is_due, wait_for_run
from fsdpctl.backends.table import get_backend
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.files import take_lock
from fsdpctl.contract.paths import RunPaths
from fsdpctl.node.os import processes
from fsdpctl.runs.evidence import read_plan
from fsdpctl.supervise.agents import Agents
from fsdpctl.supervise.disk import retry_disk_errors
from fsdpctl.supervise.loop import Supervisor


def main(run: RunPaths) -> None:
    """Fork the supervisor, and exit once it is up: the starter may live long and never reap a child."""
    os.umask(0o077)
    read_end, write_end = os.pipe()
    starter = os.getpid()
    if os.fork():
        os.close(write_end)
        os._exit(0 if os.read(read_end, 1) else 1)
    os.close(read_end)
    lock = acquire_lock(run)
    os.write(write_end, b".")
    os.close(write_end)
    while os.getppid() == starter:  # the starter has the run's tag: the sweep of a run that ends at once would kill it
        time.sleep(0.001)
    supervise(run, lambda: os.fstat(lock).st_nlink == 0)


def acquire_lock(run: RunPaths) -> int:
    """Make this process the only supervisor of the run, for as long as it lives; return the descriptor of the lock."""
    if (lock := take_lock(run.supervisor_lock)) is None:
        sys.exit("another supervisor has this run")
    write_json(run.supervisor, processes.identify(os.getpid()))
    return lock


def supervise(run: RunPaths, is_deleted: Callable[[], bool] = lambda: False) -> None:
    """Supervise the run to its end; retry after disk errors, unless its directory is deleted."""
    agents: list[Agents] = []  # kept over errors: they hold connections and child processes

    def work() -> None:
        if not agents:
            plan = read_plan(run)
            if plan.after is not None and is_due(run):
                wait_for_run(run, plan.after)
            agents.append(get_backend(plan.backend).open_agents(run, plan))
        Supervisor(agents[0]).work()

    retry_disk_errors(work, Agents.disk_tries, is_deleted)


if __name__ == "__main__":
    main(RunPaths(Path(sys.argv[1])))
