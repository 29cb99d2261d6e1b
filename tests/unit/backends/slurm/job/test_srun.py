"""The task of srun on each node, run by a real bash."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from fsdpctl.backends.slurm.job.srun import srun_argv, srun_env
from fsdpctl.backends.slurm.profile_keys import ContainerKeys
from fsdpctl.contract import NodeExit
from fsdpctl.contract.codec import find_json
from fsdpctl.contract.paths import RunPaths
from fsdpctl.contract.plan import LaunchPlan
from fsdpctl.contract.records import NodeEnd
from fsdpctl.launch.build import build_plan
from fsdpctl.launch.host import SubmitHost
from fsdpctl.specs.load import load_job, load_profile

ATTEMPT = RunPaths(Path("/runs/a b")).attempt(1)


def plan_of(
    run: RunPaths, setup: str = "[]", python: str = "python3", container: ContainerKeys | None = None
) -> LaunchPlan:
    profile = load_profile("slurm-h100").model_copy(update={"setup": tuple(json.loads(setup)), "python": python})
    profile = profile.model_copy(update={"backend": profile.backend.model_copy(update={"container": container})})
    return build_plan(
        profile, load_job("llm-tiny", ["nodes=2"]), SubmitHost("r-aaaa", str(run.root), "/", "python3", ())
    )


def start_task(run: RunPaths, plan: LaunchPlan, node: int) -> subprocess.CompletedProcess[str]:
    run.root.mkdir(exist_ok=True)
    argv = srun_argv(plan, run.attempt(1))
    task = argv[argv.index("bash") :]
    env = {**os.environ, "SLURM_NODEID": str(node)}
    return subprocess.run(task, env=env, capture_output=True, text=True)


def test_a_task_executes_the_agent_of_its_node(tmp_path: Path) -> None:
    recorder = tmp_path / "python $3"
    recorder.write_text('#!/bin/bash\nprintf "%s|" "$FSDPCTL_NODE_RANK" "$X" "$PYTHONPATH" "$@"\n')
    recorder.chmod(0o700)
    run = RunPaths(tmp_path / "run dir")
    done = start_task(run, plan_of(run, '["X=\\"a b\\" PYTHONPATH=/module", "export X"]', str(recorder)), 1)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    log = run.attempt(1).node(1).agent_log.read_text()
    assert log.split("|") == ["1", "a b", str(run.code), "-m", "fsdpctl.node.agent", f"--run-dir={run.root}",
                              "--attempt=1", "--node-rank=1", ""]  # fmt: skip


def test_a_failed_setup_ends_the_node(tmp_path: Path) -> None:
    run = RunPaths(tmp_path)
    done = start_task(run, plan_of(run, '["echo loading", "cat /nowhere"]'), 0)
    assert done.returncode != 0
    end = find_json(NodeEnd, run.attempt(1).node(0).end)
    assert end is not None
    assert (end.code, end.reason) == (NodeExit.NODE_FAULT, "a line of `setup` or `environment` failed; see agent.log")
    assert "/nowhere" in run.attempt(1).node(0).agent_log.read_text()


def test_pyxis_runs_the_whole_step_in_the_container() -> None:
    container = ContainerKeys(runtime="pyxis", image="/i.sqsh", mounts=("/data", "/s:/t:ro"), options=("--no-x",))
    argv = srun_argv(plan_of(RunPaths(Path("/runs/a b")), '["module load x"]', container=container), ATTEMPT)
    flags = ["--container-image=/i.sqsh", "--container-mounts=/runs:/runs,/data:/data,/s:/t:ro", "--no-x"]
    before, after = argv[: argv.index("bash")], argv[argv.index("bash") :]
    assert before[-3:] == flags
    assert "module load" not in after[2], "it ran in the batch script: a container has no modules"
    assert after[4:7] == ["python3", "-m", "fsdpctl.node.agent"]


def test_apptainer_runs_the_agent_in_the_container() -> None:
    container = ContainerKeys(runtime="apptainer", image="/i.sif", mounts=("/data:/d",), options=("--writable-tmpfs",))
    argv = srun_argv(plan_of(RunPaths(Path("/runs/a b")), '["module load x"]', container=container), ATTEMPT)
    task = argv[argv.index("bash") :]
    assert "module load x" in task[2]
    binds = ["--bind=/runs", "--bind=/data:/d"]
    assert task[4:13] == [
        *("apptainer", "exec", "--nv", *binds, "--writable-tmpfs", "/i.sif"),
        *("python3", "-m"),
    ]


def test_srun_gets_no_options_of_the_batch_step(tmp_path: Path) -> None:
    batch = {"SLURM_CPUS_PER_TASK": "1", "SLURM_JOB_ID": "7", "PATH": "/bin"}
    env = srun_env(batch, RunPaths(tmp_path).attempt(3), preempt_grace_s=30)
    ours = {"FSDPCTL_ATTEMPT": "3", "FSDPCTL_PREEMPT_GRACE_S": "30"}
    assert env == {"SLURM_JOB_ID": "7", "PATH": "/bin", **ours}
