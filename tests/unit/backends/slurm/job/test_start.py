"""The start of a job's supervisor, as a process, while the controller is down."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job.scontrol import find_addresses
from fsdpctl.contract import Cause
from fsdpctl.contract.codec import find_json, write_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import AllocatedNode, Allocation
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.runs.evidence import read_verdict
from fsdpctl.runs.record import RunRecord
from fsdpctl.specs.load import load_job, load_profile

REPOSITORY = Path(__file__).parents[5]

# The time limit comes near at once, and the controller answers again when srun has started its step.
SCONTROL = """\
#!/bin/sh
case "$1 $2" in
"show hostnames") printf 'node1\\nnode2\\n';;
"show config") kill -USR2 $PPID; exit 1;;
"show job") printf 'JobId=7 JobName=x\\n   JobState=RUNNING Reason=None\\n';;
"requeue 7") ;;
*) echo 'slurm_load_node error: Unable to contact slurm controller (connect failure)' >&2; exit 1;;
esac
"""
SRUN = "#!/bin/sh\nuntil test -e attempts/1/stop; do sleep 0.05; done\n"
ENV = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node[1-2]", "SLURM_JOB_PARTITION": "main"}


def write_tools(directory: Path, **tools: str) -> str:
    """Write programs; return a PATH with them."""
    directory.mkdir()
    for name, text in tools.items():
        (directory / name).write_text(text)
        (directory / name).chmod(0o700)
    return f"{directory}:/usr/bin:/bin"


def test_a_job_starts_without_an_answer_and_keeps_a_signal_that_comes_meanwhile(tmp_path: Path) -> None:
    run = RunPaths(tmp_path / "r-aaaa")
    run.root.mkdir()
    write_json(run.record, RunRecord.new("r-aaaa", "llm-tiny", "p", "slurm", 1.0, 2))
    host = SubmitHost("r-aaaa", str(run.root), "/", sys.executable, ())
    write_json(run.plan, build_plan(load_profile("slurm-h100"), load_job("llm-tiny", ["nodes=2"]), host))
    path = write_tools(tmp_path / "bin", scontrol=SCONTROL, srun=SRUN)
    argv = [sys.executable, "-m", "fsdpctl.backends.slurm.job", str(run.root)]
    env = {**os.environ, **ENV, "PATH": path, "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(argv, cwd=run.root, env=env, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    nodes = tuple(AllocatedNode(name, name) for name in ("node1", "node2"))
    assert find_json(Allocation, run.attempt(1).allocation) == Allocation("7", 0, nodes)
    verdict = read_verdict(run.attempt(1))
    assert verdict is not None and (verdict.cause, verdict.restart) == (Cause.TIME_LIMIT, True)


def test_a_node_that_slurm_does_not_report_is_reached_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "PATH", write_tools(tmp_path / "bin", scontrol="#!/bin/sh\necho NodeName=node2 NodeAddr=10.0.0.2\n")
    )
    assert find_addresses(("node1", "node2")) == (AllocatedNode("node1", "node1"), AllocatedNode("node2", "10.0.0.2"))
