"""Warm starts: which process is used again, and that ranks end with whatever ends above them."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from fsdpctl.commands.torchrun import TORCHRUN
from fsdpctl.node.os.processes import children
from tests.backends.harness import Run, find_variable, fsdpctl, kill, paused, submit, wait_for
from tests.services import require

SCRIPT = """
import os, subprocess, sys, time
from pathlib import Path
assert "torch" in sys.modules, "this rank is not warm"
attempt, rank = os.environ["FSDPCTL_ATTEMPT"], os.environ["RANK"]
subprocess.Popen(["sleep", "1000"], env={"FORGOT": os.environ["FSDPCTL_RUN_ID"]}, start_new_session=True)
progress = Path(os.environ["FSDPCTL_CHECKPOINT_DIR"])
progress.mkdir(exist_ok=True)
(progress / f"{attempt}-{rank}").touch()
Path(os.environ["FSDPCTL_RUN_DIR"], f"up-{attempt}-{rank}").touch()
time.sleep(1000)
"""


def fork_servers(run: Run) -> list[int]:
    records = [json.loads((run.paths.root / f"fork-server-{rank}.json").read_text()) for rank in (0, 1)]
    return [record["process"]["pid"] for record in records]


def wait_up(run: Run, attempt: int) -> list[int]:
    """Wait until both ranks of an attempt are up; return the pids of the fork servers."""
    up = [run.paths.root / f"up-{attempt}-{rank}" for rank in (0, 1)]
    wait_for(lambda: all(path.exists() for path in up), 60, lambda: f"attempt {attempt}; {run.describe()}")
    left = find_variable("FORGOT", run.run_id)
    assert len(left) == 2, f"children of earlier attempts: {left}"
    return fork_servers(run)


@pytest.mark.timeout(300)
def test_the_next_attempt_is_forked_from_the_same_process_and_nothing_outlives_what_ends(tmp_path: Path) -> None:
    require("torch")
    project = tmp_path / "my project"
    project.mkdir()
    (project / "script.py").write_text(SCRIPT)
    (project / "job.yaml").write_text(
        "name: warm\nnodes: 2\nprocs_per_node: 1\nrestarts: 9\nwarm: true\nentrypoint: {script: script.py}\n"
    )
    run = submit("./job.yaml", "--profile", "local", cwd=project)
    first = wait_up(run, 1)

    kill(run.find(1, "fsdpctl.node.agent.rank"))
    assert wait_up(run, 2) == first, "both processes are used again"

    kill(children(first[0]))
    second = wait_up(run, 3)
    assert second[1] == first[1] and second[0] != first[0]
    ends = json.loads((run.paths.root / "attempts/2/node-0/end.json").read_text())
    assert ends["cause"] == "torchrun", ends

    kill(run.find(0, TORCHRUN))
    assert wait_up(run, 4) == second

    agent, guard = sorted(run.find(0, "fsdpctl.node.agent --run-dir"))
    with paused([*run.find(None, "fsdpctl.backends."), guard]):
        kill([agent])
        wait_for(lambda: not run.find(0, "fsdpctl.node.agent.rank"), 10, run.describe)
    third = wait_up(run, 5)
    assert third[1] == second[1]
    for pid in third:
        os.kill(pid, signal.SIGSTOP)  # which no attempt can use
    fsdpctl("cancel", run.run_id, cwd=project)
    run.assert_nothing_left()
    assert not find_variable("FORGOT", run.run_id)
