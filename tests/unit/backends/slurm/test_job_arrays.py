"""The batch script of a job array, and which runs can be one."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from fsdpctl.backends.slurm.job.__main__ import own_job_id
from fsdpctl.backends.slurm.job_arrays import array_script, find_obstacle, start_array
from fsdpctl.contract.plan import AfterRun, HoldPlan, LaunchPlan
from fsdpctl.errors import RefusedError
from fsdpctl.runs.record import RunRecord
from fsdpctl.runs.store import create
from tests.unit.backends.slurm.test_batch_script import plan


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)


def at(root: Path, name: str, one: LaunchPlan) -> LaunchPlan:
    return replace(one, run_id=name, run_dir=str(root / name))


@pytest.mark.parametrize("task", [0, 1])
def test_each_task_starts_the_supervisor_of_its_own_run_in_its_directory(tmp_path: Path, task: int) -> None:
    one = replace(plan(), setup=("pwd",))
    assert one.slurm is not None
    one = replace(one, slurm=replace(one.slurm, python="env"))  # which prints the environment, but for `-m`
    plans = [at(tmp_path, name, one) for name in ("a b-aaaa", "$(c)-bbbb")]
    for each in plans:
        Path(each.run_dir, "code").mkdir(parents=True)
    script = array_script(plans, tmp_path / ".arrays" / "lr-50%", "lr", 3)
    options = [line.removeprefix("#SBATCH ") for line in script.splitlines() if line.startswith("#SBATCH ")]
    assert "--array=0-1%3" in options and "--job-name=lr" in options and "--comment=fsdpctl:lr-50%" in options
    assert f"--output={tmp_path}/.arrays/lr-50%%/%a/batch.log" in options
    env = {"PATH": "/usr/bin:/bin", "SLURM_ARRAY_TASK_ID": str(task)}
    ran = subprocess.run(
        ["bash", "-c", script.replace("exec env -m", "printenv; echo")], env=env, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    run_dir = plans[task].run_dir
    assert lines[0] == run_dir and lines[-1] == f"fsdpctl.backends.slurm.job {run_dir}"
    assert {f"FSDPCTL_RUN_ID={plans[task].run_id}", f"PYTHONPATH={run_dir}/code", "PYTHONSAFEPATH=1"} <= {*lines}


def test_a_task_whose_code_is_gone_ends_before_the_setup(tmp_path: Path) -> None:
    script = array_script([at(tmp_path, "a", replace(plan(), setup=("echo set up",)))], tmp_path, "lr", None)
    ran = subprocess.run(["bash", "-c", script], env={"SLURM_ARRAY_TASK_ID": "0"}, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == f"the code of the run is missing: {tmp_path}/a/code\n"


def test_runs_that_ask_for_the_same_can_be_one_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = at(tmp_path, "a", plan()), at(tmp_path, "b", plan(("trainer.optim.lr=1e-4",)))
    assert find_obstacle([one, other]) is None
    longer = plan(("nodes=4", "grace=10m"), time="1h")
    assert find_obstacle([one, longer]) == "they differ in --nodes, --signal, --time"
    assert find_obstacle([one, replace(other, setup=("true",))]) == "they differ in setup"
    assert find_obstacle([one, replace(other, after=AfterRun("c", "/runs/c"))]) == "they wait for other runs"
    hold = HoldPlan("mine", "/holds/mine", None, 60, "7")
    assert find_obstacle([replace(one, hold=hold), replace(other, hold=hold)]) == "they start in a hold"
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    assert find_obstacle([one, other]) == "they start in the allocation of this shell"


def test_a_task_is_named_by_its_array() -> None:
    assert own_job_id({"SLURM_JOB_ID": "12"}) == "12"
    assert own_job_id({"SLURM_JOB_ID": "13", "SLURM_ARRAY_JOB_ID": "12", "SLURM_ARRAY_TASK_ID": "0"}) == "12_0"


def test_the_directory_of_an_array_is_removed_after_its_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # without sbatch
    plans = [at(tmp_path / "runs", name, plan()) for name in ("a-aaaa", "b-bbbb")]
    records = [RunRecord.new(one.run_id, "j", "p", "slurm", 1.0, 1) for one in plans]
    runs = [create(tmp_path / "runs", record, lambda run: None) for record in records]
    older = tmp_path / "runs" / ".arrays" / "older-aaaa"
    for name, targets in (("older-aaaa", ["gone", "b-bbbb"]), ("gone-aaaa", ["gone", "lost"])):
        (older.parent / name).mkdir(parents=True)
        for task, target in enumerate(targets):
            (older.parent / name / str(task)).symlink_to(tmp_path / "runs" / target)

    with pytest.raises(RefusedError, match="sbatch is not on the PATH"):
        start_array(runs, plans, "lr", None)
    assert [*older.parent.iterdir()] == [older]
    shutil.rmtree(runs[1].root)
    with pytest.raises(RefusedError):
        start_array(runs[:1], plans[:1], "lr", None)
    assert [*older.parent.iterdir()] == []
