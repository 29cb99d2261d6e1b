"""What `cancel` says of a run of which little is left."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fsdpctl.contract import Env, State
from fsdpctl.contract.codec import write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.launchers import local
from fsdpctl.node import processes
from fsdpctl.runs.decide import Verdict


@contextmanager
def process_of(run: RunPaths) -> Iterator[subprocess.Popen[str]]:
    """A process with the run's tag, up and at rest."""
    script = "print(flush=True); input()"
    env = {**os.environ, Env.RUN_ID: run.root.name}
    with subprocess.Popen(
        [sys.executable, "-c", script], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "\n"
        yield process
        process.kill()


def test_a_supervisor_on_its_way_out_is_not_a_run_to_cancel(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / f"ended-{os.getpid()}")
    attempt = run.attempt(1)
    attempt.root.mkdir(parents=True)
    write_json(attempt.verdict, Verdict(State.STOPPED, "stopped (user)"))
    with process_of(run) as supervisor:
        write_json(run.supervisor, processes.identify(supervisor.pid))
        assert not local.cancel(run)
        assert supervisor.poll() is None
        with process_of(run) as stray:
            assert local.cancel(run)
            assert stray.wait(10) < 0
